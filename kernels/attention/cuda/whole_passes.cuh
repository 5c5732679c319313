// Attention of whole sequences on CUDA devices, forward and backward, plain or masked: a source
// file has one of them, so that they are compiled beside each other.
#pragma once

#include "core/device/dispatch.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/backward.cuh"
#include "kernels/attention/cuda/forward.cuh"
#include "kernels/attention/cuda/whole.cuh"

namespace ds::kernels::detail {

// These are for operands that are not plain.
void masked_forward(Stream& stream, const AttentionOperands& operands);
void masked_backward(Stream& stream, const AttentionOperands& operands);

template <bool kIsMasked>
void whole_forward(Stream& stream, const AttentionOperands& operands) {
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    on_head_dim(operands.shape.head_dim, [&]<int kDim>() {
      launch_forward<kDim>("attention_forward", stream,
                           attention_kernel<T, kIsMasked>(operands, droppings));
    });
  });
}

template <bool kIsMasked>
void whole_backward(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& s = operands.shape;
  const Tensor delta =
      Tensor::empty({s.batch * s.heads * s.length}, DType::kF32, stream, MemoryTag::kScratch);
  const Tensor droppings = droppings_of(stream, operands);
  on_float(operands.qkv.dtype(), [&]<class T>() {
    auto a = attention_kernel<T, kIsMasked>(operands, droppings);
    a.delta = cuda::elements<float>(delta);
    on_head_dim(s.head_dim, [&]<int kDim>() {
      launch_backward<kDim>(
          {.of_queries = "attention_backward of queries", .of_keys = "attention_backward of keys"},
          stream, a);
    });
  });
}

}  // namespace ds::kernels::detail
