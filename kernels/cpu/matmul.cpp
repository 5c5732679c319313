// The CPU half of products: gemm() of kernels/gemm makes them.
#include "kernels/cpu/matmul.h"

#include "kernels/gemm/gemm.h"

namespace ds::kernels::detail {

void matmul_cpu(Stream& stream, const MatmulArgs& args) { gemm(stream, gemm_of(args)); }

}  // namespace ds::kernels::detail
