// Attention of whole sequences on CUDA devices, forward.
#include "kernels/attention/cuda/whole_passes.cuh"

namespace ds::kernels::detail {

void attention_forward_cuda(Stream& stream, const AttentionOperands& operands) {
  if (!operands.is_plain) return masked_forward(stream, operands);
  whole_forward<false>(stream, operands);
}

}  // namespace ds::kernels::detail
