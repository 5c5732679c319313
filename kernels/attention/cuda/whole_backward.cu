// Attention of whole sequences on CUDA devices, backward.
#include "kernels/attention/cuda/whole_passes.cuh"

namespace ds::kernels::detail {

void attention_backward_cuda(Stream& stream, const AttentionOperands& operands) {
  if (!operands.is_plain) return masked_backward(stream, operands);
  whole_backward<false>(stream, operands);
}

}  // namespace ds::kernels::detail
