// Attention of some queries over some keys, as ranks make it that pass keys and values round a ring
// (Liu et al., arXiv 2310.01889). What queries have seen is kept as an output and a log-sum-exp,
// both fp32, and each part is added to that: with s of the part and S of before, outputs are
// weighted by e^(s - m) and e^(S - m), m = log(e^s + e^S).
#pragma once

#include "kernels/attention/attention.h"
#include "kernels/front/write.h"

namespace ds::kernels {

// A part is rows [first, first + count) of each sequence of a tensor, which has `length` rows.
struct SequencePart {
  int64_t length = 0;
  int64_t first = 0;
  int64_t count = 0;
  int64_t position = 0;  // of the first row of the part; those after it follow
};

struct AttentionPart {
  int64_t batch = 0;
  int64_t heads = 0;     // query heads
  int64_t kv_heads = 0;  // heads % kv_heads == 0
  int64_t head_dim = 0;  // D
  SequencePart queries{}, keys{};
  AttentionMask mask{};      // of whole sequences
  int64_t whole_length = 0;  // of them; with ranges or a layout
  float scale = 0;           // as AttentionSpec's
  float softcap = 0;
};

namespace detail {
// Rows of wider heads of fp32, and what they see of each other, are more than a lane of a GPU has
// registers for.
inline constexpr int64_t kMostMaskedDimOfFp32Parts = 128;
}  // namespace detail

// The same attention over whole sequences is `spec`, whose shape has their length; positions are
// told by the parts.
AttentionPart part_of(const AttentionSpec& spec, const SequencePart& queries,
                      const SequencePart& keys);
// Whether positions let any query of the part see any key of it; ranges and layouts, which may lie
// on a device, are not looked at.
bool sees_anything(const AttentionPart& part);

// qkv [batch * queries.length, packed()] as of attention_forward(), of which the queries are read;
// kv [batch * keys.length, 2 * kv_heads * D], keys before values, of qkv's dtype;
// y fp32 [batch * queries.length, heads * D], log_sum_exp fp32 [batch, heads, queries.length], of
// which the rows of the part are written. kAccumulate: they hold what was seen before.
void attention_part_forward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                            const Tensor& kv, Tensor& y, Tensor& log_sum_exp, Write write);

// delta fp32 [batch, heads, T] = sum over D of y * dy, both [batch * T, heads * D] of one dtype
// (Dao, arXiv 2307.08691): what all parts of a query's backward have in common.
void attention_delta(Stream& stream, const AttentionShape& shape, const Tensor& y, const Tensor& dy,
                     Tensor& delta);

// log_sum_exp and delta are those of all parts; dy as y of attention_forward(). Adds to dq fp32
// [batch * queries.length, heads * D] and dkv fp32, shaped as kv.
struct AttentionPartGrads {
  const Tensor& log_sum_exp;
  const Tensor& delta;
  const Tensor& dy;
  Tensor& dq;
  Tensor& dkv;
};
void attention_part_backward(Stream& stream, const AttentionPart& part, const Tensor& qkv,
                             const Tensor& kv, const AttentionPartGrads& grads);

}  // namespace ds::kernels
