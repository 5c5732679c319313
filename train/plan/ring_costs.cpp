#include "train/plan/ring_costs.h"

#include "kernels/attention/attention_part.h"
#include "model/parallel/ring_passes.h"

namespace ds {

void play_ring_attention(const EngineOptions& job, Stream& stream) {
  const ModelDimensions model = dimensions(job.model);
  const kernels::AttentionShape here{.batch = job.micro_batch,
                                     .length = job.length / 2 * 2,
                                     .heads = model.heads,
                                     .kv_heads = model.kv_heads,
                                     .head_dim = model.head_dim};
  DS_CHECK(here.length > 0, "ring attention: sequences of {} tokens, expected 2 or more",
           job.length);
  const int64_t rows = here.batch * here.length;
  const int64_t width = here.heads * here.head_dim, keys = 2 * here.kv_heads * here.head_dim;
  const auto zeros = [&](const Shape& shape, DType dtype) {
    return Tensor::zeros(shape, dtype, stream);
  };
  const Tensor qkv = zeros({rows, here.packed()}, job.dtype), kv = zeros({rows, keys}, job.dtype);
  const Tensor dy = zeros({rows, width}, job.dtype), value = zeros({rows, width}, job.dtype);
  Tensor y = zeros({rows, width}, DType::kF32), dq = zeros({rows, width}, DType::kF32);
  Tensor dkv = zeros({rows, keys}, DType::kF32);
  Tensor sums = zeros({here.batch, here.heads, here.length}, DType::kF32);
  Tensor delta = zeros(sums.shape(), DType::kF32);
  const kernels::AttentionPart part =
      zigzag_parts({.shape = here}, {.rank = 1, .ranks = 2}, /*owner=*/0).front();
  kernels::attention_part_forward(stream, part, qkv, kv, y, sums, kernels::Write::kOverwrite);
  kernels::attention_delta(stream, here, value, dy, delta);
  kernels::attention_part_backward(
      stream, part, qkv, kv, {.log_sum_exp = sums, .delta = delta, .dy = dy, .dq = dq, .dkv = dkv});
  stream.report("", {});  // the end of the last one
}

}  // namespace ds
