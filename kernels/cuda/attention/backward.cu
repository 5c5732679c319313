// Attention of whole sequences on CUDA devices, backward.
#include "core/dispatch.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/backward.cuh"
#include "kernels/cuda/attention/whole.cuh"

namespace ds::kernels::detail {

void attention_backward_cuda(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& s = operands.shape;
  const Tensor delta =
      Tensor::empty({s.batch * s.heads * s.length}, DType::kF32, stream, MemoryTag::kScratch);
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    AttentionKernel<T> a = attention_kernel<T>(operands, droppings);
    a.delta = cuda::elements<float>(delta);
    on_head_dim(s.head_dim, [&]<int kDim>() {
      launch_backward<kDim>(
          {.of_queries = "attention_backward of queries", .of_keys = "attention_backward of keys"},
          stream, a);
    });
  });
}

}  // namespace ds::kernels::detail
