// How the CUDA runtime's refusals of pinned memory are told. The program is linked so that the
// runtime's cudaHostAlloc is the one below, which refuses: no GPU is needed.
#include <cuda_runtime_api.h>

#include "core/cuda/memory.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace {

cudaError_t answer = cudaSuccess;

}  // namespace

// The linker's names (--wrap).
extern "C" cudaError_t __real_cudaHostAlloc(void** to, size_t bytes, unsigned flags);   // NOLINT
extern "C" cudaError_t __wrap_cudaHostAlloc(void** to, size_t bytes, unsigned flags) {  // NOLINT
  return answer == cudaSuccess ? __real_cudaHostAlloc(to, bytes, flags) : answer;
}

namespace ds {
namespace {

// For its lifetime there is no pinned memory.
class Refusing {
 public:
  explicit Refusing(cudaError_t with) { answer = with; }
  ~Refusing() { answer = cudaSuccess; }
  Refusing(const Refusing&) = delete;  // restores on exit, exactly once
  Refusing& operator=(const Refusing&) = delete;
};

TEST_CASE("more pinned memory than there is is out of memory, however the runtime refuses it",
          "[core]") {
  constexpr size_t kTooMuch = size_t{1} << 46;
  const Refusing refusing(GENERATE(cudaErrorMemoryAllocation, cudaErrorInvalidValue));
  CHECK_THROWS_AS(make_pinned_memory(kTooMuch), OutOfMemory);
  CHECK_THROWS_WITH(make_pinned_memory(kTooMuch),
                    Catch::Contains("pinned memory: 70368744177664 bytes in one block"));
}

TEST_CASE("what else the runtime refuses pinned memory for is told as it is", "[core]") {
  const Refusing refusing(cudaErrorNoDevice);
  CHECK_THROWS_AS(make_pinned_memory(1 << 20), Unsupported);
  const Refusing broken(cudaErrorIllegalAddress);
  CHECK_THROWS_AS(make_pinned_memory(1 << 20), InternalError);
}

}  // namespace
}  // namespace ds
