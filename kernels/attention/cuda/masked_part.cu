// Parts of attention with any mask by positions, scale and cap on CUDA devices.
#include "kernels/attention/cuda/part.cuh"

namespace ds::kernels::detail {

void masked_part_forward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                         const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write) {
  part_forward<true>(stream, part, qkv, kv, y, log_sum_exp, write);
}

void masked_part_backward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                          const Tensor& kv, const AttentionPartGrads& grads) {
  part_backward<true>(stream, part, qkv, kv, grads);
}

}  // namespace ds::kernels::detail
