// Products of GPUs: those of cuBLASLt; see library_product.h.
#include <optional>

#include "core/libraries/gpu_libraries.h"
#include "kernels/cuda/matmul/cublaslt_products.h"
#include "kernels/cuda/matmul/library_product.h"

namespace ds::kernels::detail {
namespace {

struct ProductsOfStream {
  std::optional<CublasLtProducts> products;
};

}  // namespace

// What NVIDIA's documentation says that GPUs of sm_90 want, and more than sm_80 does.
int64_t product_scratch_bytes() { return int64_t{32} << 20; }

Gemm library_product(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return gemm;
  auto& products = stream.state<ProductsOfStream>().products;
  if (!products) {
    const Tensor& scratch = product_scratch(stream);
    products.emplace(cublaslt(), LtScratch{scratch.address(), scratch.bytes()});
  }
  return products->multiply(gemm, static_cast<cudaStream_t>(stream.queue().native()));
}

}  // namespace ds::kernels::detail
