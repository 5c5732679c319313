// Tables of functions, called as far as that can be done without a GPU. In builds that have all
// tables, on machines that have the libraries.
#include <string_view>
#include <thread>
#include <vector>

#include "core/libraries/cublaslt.h"
#include "core/libraries/cudnn.h"
#include "core/libraries/cufile.h"
#include "core/libraries/gpu_libraries.h"
#include "core/libraries/nccl.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// Whether the machine lacks it, and says so.
template <class Table>
bool is_missing(const Table& (*ask)()) {
  try {
    static_cast<void>(ask());
    return false;
  } catch (const Unsupported& missing) {
    WARN(missing.what());
    return true;
  }
}

}  // namespace

TEST_CASE("functions of cuBLASLt are those of its header", "[core]") {
  if (is_missing(cublaslt)) return;
  const CublasLt& table = cublaslt();
  const size_t version = table.cublasLtGetVersion();
  CHECK(table.library.version()->starts_with(std::to_string(version / 10000) + "."));
  CHECK(table.cublasLtGetStatusString(CUBLAS_STATUS_INVALID_VALUE) !=
        std::string_view(table.cublasLtGetStatusString(CUBLAS_STATUS_SUCCESS)));
  cublasLtMatrixLayout_t layout = nullptr;  // made on the host alone
  REQUIRE(table.cublasLtMatrixLayoutCreate(&layout, CUDA_R_16BF, 64, 32, 64) ==
          CUBLAS_STATUS_SUCCESS);
  CHECK(table.cublasLtMatrixLayoutDestroy(layout) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("functions of cuDNN are those of its header", "[core]") {
  if (is_missing(cudnn)) return;
  const Cudnn& table = cudnn();
  CHECK(table.cudnnGetVersion() / 10000 == CUDNN_MAJOR);
  CHECK(table.cudnnGetErrorString(CUDNN_STATUS_SUCCESS) ==
        std::string_view("CUDNN_STATUS_SUCCESS"));
  cudnnBackendDescriptor_t tensor = nullptr;
  REQUIRE(table.cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor) ==
          CUDNN_STATUS_SUCCESS);
  CHECK(table.cudnnBackendFinalize(tensor) != CUDNN_STATUS_SUCCESS);  // it has no attributes yet
  CHECK(table.cudnnBackendDestroyDescriptor(tensor) == CUDNN_STATUS_SUCCESS);
}

TEST_CASE("functions of NCCL are those that we have declared", "[core]") {
  if (is_missing(nccl)) return;
  const Nccl& table = nccl();
  int version = 0;
  REQUIRE(table.ncclGetVersion(&version) == NcclResult::kSuccess);
  CHECK(version / 10000 == 2);
  CHECK_THAT(table.ncclGetErrorString(NcclResult::kInvalidArgument),
             Catch::StartsWith("invalid argument"));
  CHECK(table.ncclGroupStart() == NcclResult::kSuccess);
  CHECK(table.ncclGroupEnd() == NcclResult::kSuccess);
}

TEST_CASE("cuFile says its version by the types that we have declared", "[core]") {
  if (is_missing(cufile)) return;
  int version = 0;
  CHECK(cufile().cuFileGetVersion(&version).err == 0);
  CHECK(version >= 1000);
}

TEST_CASE("threads that ask for a table at the same time get one", "[core]") {
  if (is_missing(nccl)) return;
  std::vector<const Nccl*> seen(8, nullptr);
  std::vector<std::thread> threads;
  for (const Nccl*& mine : seen) threads.emplace_back([&mine] { mine = &nccl(); });
  for (std::thread& thread : threads) thread.join();
  for (const Nccl* one : seen) CHECK(one == &nccl());
}

}  // namespace ds
