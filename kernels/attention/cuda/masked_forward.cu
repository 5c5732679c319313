// Attention with any mask, scale and cap of whole sequences on CUDA devices, forward.
#include "kernels/attention/cuda/whole_passes.cuh"

namespace ds::kernels::detail {

void masked_forward(Stream& stream, const AttentionOperands& operands) {
  whole_forward<true>(stream, operands);
}

}  // namespace ds::kernels::detail
