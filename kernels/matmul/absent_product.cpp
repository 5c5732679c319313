// Products on GPUs in a build without cuBLASLt's header: refused, with what the build lacks.
#include "core/libraries/gpu_libraries.h"
#include "core/status/error.h"
#include "kernels/matmul/library_product.h"

namespace ds::kernels::detail {

int64_t product_scratch_bytes() { return 0; }
std::optional<MatmulPlace> product_place(Device /*device*/) { return std::nullopt; }

Gemm library_product(Stream& stream, const Gemm& gemm) {
  if (stream.device().is_meta()) return gemm;
  require_table(GpuLibrary::kCublasLt);
  throw InternalError(
      fmt::format("matmul: a {} x {} product by a library that the build lacks", gemm.m, gemm.n));
}

}  // namespace ds::kernels::detail
