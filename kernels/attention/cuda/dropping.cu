// A thread per sample finds what dropout follows from.
#include "core/values/index.h"
#include "kernels/attention/cuda/attention_cuda.h"
#include "kernels/attention/cuda/dropping.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.cuh"

namespace ds::kernels::detail {
namespace {

__global__ void dropping_kernel(AttentionShape shape, AttentionDropout dropout,
                                Dropping* droppings) {
  const int64_t threads = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (int64_t sample = first; sample < shape.batch; sample += threads) {
    droppings[sample] = {dropout.mask.rng().key(), dropout.head_number(shape, sample, 0)};
  }
}

}  // namespace

static_assert(sizeof(Dropping) == 16, "as flash_scratch_bytes() counts them");

Tensor droppings_of(Stream& stream, const AttentionOperands& operands) {
  const AttentionShape& shape = operands.shape;
  if (operands.dropout.p == 0) return {};
  Tensor droppings = Tensor::empty({shape.batch * narrow<int64_t>(sizeof(Dropping))}, DType::kU8,
                                   stream, MemoryTag::kScratch);
  cuda::launch("attention: what is dropped", dropping_kernel, cuda::shape_for(shape.batch), stream,
               shape, operands.dropout, static_cast<Dropping*>(droppings.address()));
  return droppings;
}

}  // namespace ds::kernels::detail
