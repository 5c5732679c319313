#include "rankd/device/tensor_path.h"

#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr TensorFacts kFirst{.gpu = 1, .has_nccl = true};
constexpr TensorFacts kSecond{.gpu = 2, .has_nccl = true};
constexpr TensorFacts kBare{.gpu = 3, .has_nccl = false};

TEST_CASE("tensors go from GPU to GPU where each rank has one, and NCCL", "[rankd]") {
  const auto both = std::vector{kFirst, kSecond};
  CHECK(choose_tensor_path(NcclWish::kIfPossible, both, "").path == TensorPath::kNccl);
  CHECK(choose_tensor_path(NcclWish::kRequired, both, "").path == TensorPath::kNccl);
  CHECK(choose_tensor_path(NcclWish::kNever, both, "").path == TensorPath::kStaged);
}

TEST_CASE("communication.backend says how much NCCL is wanted", "[rankd]") {
  CHECK(nccl_wish(CommunicationBackend::kAuto) == NcclWish::kIfPossible);
  CHECK(nccl_wish(CommunicationBackend::kNccl) == NcclWish::kRequired);
  for (const auto other :
       {CommunicationBackend::kShm, CommunicationBackend::kTcp, CommunicationBackend::kMpi}) {
    CHECK(nccl_wish(other) == NcclWish::kNever);
  }
}

TEST_CASE("one rank alone needs nobody to carry its tensors", "[rankd]") {
  const auto one = std::vector{kBare};
  CHECK(choose_tensor_path(NcclWish::kIfPossible, one, "").path == TensorPath::kAlone);
  CHECK(choose_tensor_path(NcclWish::kNever, one, "").path == TensorPath::kAlone);
  // It was asked for, all the same.
  CHECK_THROWS_AS(choose_tensor_path(NcclWish::kRequired, one, "no libnccl"), Unsupported);
}

TEST_CASE("what speaks against NCCL is said, and an error where it is required", "[rankd]") {
  const auto lacking = std::vector{kFirst, kBare};
  const TensorPathChoice choice = choose_tensor_path(NcclWish::kIfPossible, lacking, "no libnccl");
  CHECK(choice.path == TensorPath::kStaged);
  CHECK(choice.why == "rank 1 has no NCCL: no libnccl");
  CHECK(choose_tensor_path(NcclWish::kIfPossible, lacking, "").why == "rank 1 has no NCCL");
  const auto shared = std::vector{kFirst, kSecond, kFirst};
  CHECK_THAT(choose_tensor_path(NcclWish::kIfPossible, shared, "").why,
             Catch::Contains("ranks 0 and 2 share a GPU"));
  CHECK_THROWS_WITH(choose_tensor_path(NcclWish::kRequired, shared, ""),
                    Catch::Contains("communication.backend: nccl, but ranks 0 and 2 share"));
}

}  // namespace
}  // namespace ds
