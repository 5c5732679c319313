// Products of GPUs: those of cuBLASLt; see library_product.h.
#include <chrono>
#include <optional>

#include "core/cuda/library_calls.h"
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
#include "kernels/matmul/cublaslt_products.h"
#include "kernels/matmul/library_product.h"
#include "kernels/matmul/matmul.h"

namespace ds::kernels::detail {
namespace {

struct ProductsOfStream {
  std::optional<CublasLtProducts> products;
};

// Returns how long work takes that the stream is given while it has no other.
double seconds_of(const Stream& stream, const std::function<void()>& give) {
  using Clock = std::chrono::steady_clock;
  stream.synchronize();
  const Clock::time_point start = Clock::now();
  give();
  stream.synchronize();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

// What NVIDIA's documentation says that GPUs of sm_90 want, and more than sm_80 does.
int64_t product_scratch_bytes() { return int64_t{32} << 20; }

std::optional<MatmulPlace> product_place(Device device) {
  return MatmulPlace{.gpu = model_name(device),
                     .library = fmt::format("cuBLASLt {}", cublaslt().cublasLtGetVersion())};
}

Gemm library_product(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return gemm;
  auto& products = stream.state<ProductsOfStream>().products;
  if (!products) {
    const Tensor& scratch = product_scratch(stream);
    products.emplace(cublaslt(), LtScratch{scratch.address(), scratch.bytes()},
                     stream.state<MatmulRules>());
  }
  const CublasLtProducts::Timer timer = [&](const std::function<void()>& give) {
    return seconds_of(stream, give);
  };
  const CublasLtProducts::Timer none;  // a recording has no time
  return products->multiply(gemm, static_cast<cudaStream_t>(stream.queue().native()),
                            stream.is_recorded() ? none : timer);
}

}  // namespace ds::kernels::detail
