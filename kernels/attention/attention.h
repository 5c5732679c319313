// Multi-head attention with memory O(T) (Dao et al., arXiv 2205.14135), grouped-query heads
// (Ainslie et al., arXiv 2305.13245), over a packed projection. It is causal unless its mask says
// otherwise.
#pragma once

#include "kernels/attention/attention_mask.h"
#include "kernels/front/micro_inputs.h"

namespace ds::kernels {

struct AttentionShape {
  int64_t batch = 0;
  int64_t length = 0;    // T
  int64_t heads = 0;     // query heads
  int64_t kv_heads = 0;  // heads % kv_heads == 0
  int64_t head_dim = 0;  // D
  // Row of the packed projection: heads*D queries, kv_heads*D keys, kv_heads*D values.
  constexpr int64_t packed() const { return (heads + 2 * kv_heads) * head_dim; }
};

// What attention computes. Scores q . k are multiplied by a scale, then capped, then masked.
struct AttentionSpec {
  AttentionShape shape{};
  AttentionMask mask{};
  float scale = 0;    // 0: 1 / sqrt(D)
  float softcap = 0;  // c: scores become c tanh(s / c) (Gemma 2, arXiv 2408.00118); 0: they stay
  // The width of values, and of what a head gives, if they are narrower than queries and keys
  // (DeepSeek-V2, arXiv 2405.04434); 0: they are not. No kernel has such values:
  // model/functions/functions.h says who fills them up.
  int64_t value_dim = 0;
  // A sink has its part of each row's softmax (attention_sink.h), so that weights of keys are less
  // than 1 together, as the log-sum-exp of a backward pass says.
  bool has_sink = false;

  bool has_narrow_values() const { return value_dim > 0 && value_dim != shape.head_dim; }
  // Causal attention with the usual scale, which some halves have faster kernels for.
  bool is_plain() const {
    return mask.within(shape.length).is_causal() && scale == 0 && softcap == 0 && !has_sink;
  }
};

// Pairs of a query and a key of a sequence that positions let meet in one head; ranges and layouts,
// which may lie on a device, are not looked at.
double seen_pairs(const AttentionSpec& spec);

// Inverted dropout of the attention probabilities: each is kept and divided by 1 - p where a
// uniform number of the mask is at least p. The number depends on the sample's index first_sample +
// b, head, query and key alone, so backward repeats the mask and nothing is kept.
struct AttentionDropout {
  float p = 0;         // 0: none
  DropoutMask mask{};  // with p > 0
  // If other ranks have the other heads, all_heads counts all, and first_head those before these.
  int64_t all_heads = 0;  // 0: those of the shape are all
  int64_t first_head = 0;

  // Head `head` of sample `sample`, counted through the global batch.
  constexpr int64_t head_number(const AttentionShape& shape, int64_t sample, int64_t head) const {
    const int64_t heads = all_heads > 0 ? all_heads : shape.heads;
    return (mask.inputs->first_sample + sample) * heads + first_head + head;
  }
};

// qkv [batch*T, packed()], y [batch*T, heads*D], log_sum_exp fp32 [batch, heads, T]. A query that
// sees no key has an output of zeros and a log-sum-exp of -infinity.
// On bf16 operands the weights, and backward the gradients of the scores, may be rounded to bf16
// before they are multiplied: GPUs do that, and CPUs with fast bf16 products.
void attention_forward(Stream& stream, const AttentionSpec& spec, const Tensor& qkv, Tensor& y,
                       Tensor& log_sum_exp, const AttentionDropout& dropout = {});
// Scores are recomputed. dqkv has qkv's shape; overwritten.
void attention_backward(Stream& stream, const AttentionSpec& spec, const Tensor& qkv,
                        const Tensor& y, const Tensor& log_sum_exp, const Tensor& dy, Tensor& dqkv,
                        const AttentionDropout& dropout = {});

// One new position per sequence against a cache, for generation: q [batch, heads*D],
// cache_k/cache_v [batch, capacity, kv_heads*D] with `length` filled positions; y [batch, heads*D].
// Unsupported with ranges or a layout.
void attention_decode(Stream& stream, const AttentionSpec& spec, const Tensor& q,
                      const Tensor& cache_k, const Tensor& cache_v, int64_t capacity, Tensor& y);

}  // namespace ds::kernels
