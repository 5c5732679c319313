// What a communicator promises of its sums, checked by the conformance suite: bits in rank order,
// or a tolerance where the transport may choose the order.
#include "comm/meta_comm.h"
#include "comm/traced_comm.h"
#include "tests/suites/any_order_comm.h"
#include "tests/suites/communicator_suite.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using namespace ds::test;

namespace {

std::vector<std::unique_ptr<Communicator>> any_order_group(int size, AnyOrderComm::Fault fault) {
  auto group = make_thread_group(size);
  for (auto& comm : group) comm = std::make_unique<AnyOrderComm>(std::move(comm), fault);
  return group;
}

const CommunicatorCase& case_named(std::string_view name) {
  for (const CommunicatorCase& one : communicator_cases()) {
    if (one.name == name) return one;
  }
  throw InternalError("no such case");
}

}  // namespace

TEST_CASE("a group that sums in another order conforms", "[comm]") {
  const int size = GENERATE(1, 2, 3, 5);
  for (const CommunicatorCase& suite_case : communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name << ", " << size << " ranks") {
      CHECK_NOTHROW(run_group(any_order_group(size, AnyOrderComm::Fault::kNone), suite_case.body));
    }
  }
}

TEST_CASE("another order shows in the bits, so that bits cannot be asked of it", "[comm]") {
  run_group(any_order_group(3, AnyOrderComm::Fault::kNone), [](Communicator& comm) {
    RankStream rank(comm);
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      Tensor t = values(comm.rank(), dtype, 3001, rank.stream);
      comm.all_reduce(t, ReduceOp::kSum, rank.stream);
      const auto in_rank_order = reduced(3, dtype, dtype, ReduceOp::kSum, 0, 3001);
      require(std::memcmp(t.raw(), in_rank_order.data(), t.bytes()) != 0,
              "{}: the order does not show", name_of(dtype));
    }
  });
}

TEST_CASE("a lost contribution is no matter of order", "[comm]") {
  for (const char* name : {"all_reduce: every dtype, operation and length", "reduce_scatter"}) {
    CHECK_THROWS_WITH(
        run_group(any_order_group(3, AnyOrderComm::Fault::kForgetsLastRank), case_named(name).body),
        Catch::Contains("expected") && Catch::Contains("+-"));
  }
}

TEST_CASE("decorators and groups that are split off promise what their group does", "[comm]") {
  run_ranks(2, [](Communicator& comm) {
    require(comm.sum_order() == SumOrder::kRank, "shared memory");
    require(comm.split(0, 0)->sum_order() == SumOrder::kRank, "a group split off");
  });
  CHECK(MetaComm(0, 4).sum_order() == SumOrder::kRank);
  auto group = any_order_group(1, AnyOrderComm::Fault::kNone);
  CHECK(group[0]->split(0, 0)->sum_order() == SumOrder::kAny);
  CHECK(TracedComm(std::move(group[0]), "data", {}).sum_order() == SumOrder::kAny);
}
