// Attention forward and backward over seeded numbers, for the tests that compare what comes out.
#pragma once

#include "core/values/rng.h"
#include "kernels/attention/attention.h"
#include "tests/support/reference.h"

namespace ds::kernels {

struct AttentionRun {
  Tensor qkv, y, lse, dy, dqkv;
};

inline AttentionRun run_attention(const AttentionSpec& spec, DType dtype, Stream& stream,
                                  const AttentionDropout& dropout = {}) {
  const AttentionShape& shape = spec.shape;
  const int64_t rows = shape.batch * shape.length, width = shape.heads * shape.head_dim;
  AttentionRun r{
      .qkv = reference::random_tensor({rows, shape.packed()}, dtype, 1, stream),
      .y = Tensor::empty({rows, width}, dtype, stream),
      .lse = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, stream),
      .dy = reference::random_tensor({rows, width}, dtype, 2, stream),
      .dqkv = Tensor::empty({rows, shape.packed()}, dtype, stream)};
  attention_forward(stream, spec, r.qkv, r.y, r.lse, dropout);
  attention_backward(stream, spec, r.qkv, r.y, r.lse, r.dy, r.dqkv, dropout);
  return r;
}

// What dropout makes of probabilities by the numbers of `rng`, if sample 0 is `first_sample`.
inline reference::Keep kept_by(const Rng& rng, const AttentionDropout& dropout,
                               const AttentionShape& shape, int64_t first_sample) {
  return [=](int64_t b, int64_t h, int64_t t, int64_t j) {
    const int64_t heads = dropout.all_heads > 0 ? dropout.all_heads : shape.heads;
    const int64_t head = (first_sample + b) * heads + dropout.first_head + h;
    const int64_t row = head * shape.length + t;
    const auto index = static_cast<uint64_t>(row * ((shape.length + 3) / 4) * 4 + j);
    return rng.uniform(index) >= dropout.p ? 1 / (1 - static_cast<double>(dropout.p)) : 0.0;
  };
}

}  // namespace ds::kernels
