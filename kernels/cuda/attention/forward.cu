// Attention of whole sequences on CUDA devices, forward.
#include "core/dispatch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/forward.cuh"
#include "kernels/cuda/attention/whole.cuh"

namespace ds::kernels::detail {

void attention_forward_cuda(Stream& stream, const AttentionOperands& operands) {
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    on_head_dim(operands.shape.head_dim, [&]<int kDim>() {
      launch_forward<kDim>("attention_forward", stream, attention_kernel<T>(operands, droppings));
    });
  });
}

}  // namespace ds::kernels::detail
