// Attention with any mask, scale and cap of whole sequences on CUDA devices, backward.
#include "kernels/attention/cuda/whole_passes.cuh"

namespace ds::kernels::detail {

void masked_backward(Stream& stream, const AttentionOperands& operands) {
  whole_backward<true>(stream, operands);
}

}  // namespace ds::kernels::detail
