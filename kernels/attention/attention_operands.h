// What the halves of attention hand to each other: operands by reference, the mask without tensors,
// and the dropout mask.
// Internal to kernels/.
#pragma once

#include <algorithm>
#include <cmath>
#include <string_view>

#include "core/status/error.h"
#include "core/values/index.h"
#include "kernels/attention/attention_part.h"
#include "kernels/front/argument.h"

namespace ds::kernels::detail {

struct AttentionOperands {
  AttentionShape shape;
  SeenKeys seen;
  float scale;    // of scores
  float softcap;  // 0: none
  bool is_plain;  // AttentionSpec's
  bool has_sink;  // the same
  const Tensor& qkv;
  const Tensor& y;
  const Tensor& log_sum_exp;
  const Tensor& dy;    // backward
  const Tensor& dqkv;  // backward
  const AttentionDropout& dropout;
};

// One new position of each sequence, and what it sees of a cache: keys [first_key, length).
struct DecodeOperands {
  AttentionShape shape;
  int64_t first_key;
  float scale, softcap;
  const Tensor& q;
  const Tensor& keys;
  const Tensor& values;
  int64_t capacity;
  Tensor& y;
};

inline void refuse_narrow_values(std::string_view op, const AttentionSpec& spec) {
  if (!spec.has_narrow_values()) return;
  throw Unsupported(fmt::format(
      "{}: values of {} elements in heads of {}; no kernel has them, so they are filled up before",
      op, spec.value_dim, spec.shape.head_dim));
}

inline void check_scores(std::string_view op, const AttentionMask& mask, float scale,
                         float softcap) {
  DS_CHECK(mask.left >= 0 && mask.right >= 0 && scale >= 0 && softcap >= 0,
           "{}: queries see {} keys before and {} behind, scale {}, softcap {}", op, mask.left,
           mask.right, scale, softcap);
}

constexpr int32_t near_or_far(int64_t distance) {
  return static_cast<int32_t>(std::min<int64_t>(distance, kFar));
}

// Whoever has whole sequences, which the mask is of, knows their length; a mask of `heads`.
inline void check_layout(std::string_view op, const Stream& stream, const AttentionMask& mask,
                         int64_t heads, int64_t length) {
  if (!mask.layout.defined()) return;
  DS_CHECK(mask.block >= 16 && mask.block % 16 == 0, "{}: blocks of {}, expected a multiple of 16",
           op, mask.block);
  const Shape& layout = mask.layout.shape();
  const int64_t blocks = (length + mask.block - 1) / mask.block;
  DS_CHECK(layout.rank() == 3 && (layout[0] == 1 || layout[0] == heads) && layout[1] == blocks &&
               layout[2] == blocks,
           "{}: a layout of {} for {} heads and {} blocks of {}", op, layout.to_string(), heads,
           blocks, mask.block);
  require_like(op, "layout", stream, mask.layout, mask.layout.numel(), DType::kU8);
}

// Rows of queries and of keys are those of whole sequences.
inline SeenKeys seen_keys(const AttentionMask& mask, int64_t length) {
  SeenKeys seen{.left = near_or_far(mask.left),
                .right = near_or_far(mask.right),
                .length = narrow<int32_t>(length)};
  if (mask.ranges.defined()) seen.ranges = static_cast<const int32_t*>(mask.ranges.address());
  if (mask.layout.defined()) {
    seen.layout = static_cast<const uint8_t*>(mask.layout.address());
    seen.layout_heads = narrow<int32_t>(mask.layout.shape()[0]);
    seen.blocks = narrow<int32_t>(mask.layout.shape()[1]);
    seen.block = narrow<int32_t>(mask.block);
  }
  return seen;
}

// Rows are those of the parts.
inline SeenKeys seen_keys(const AttentionPart& part) {
  SeenKeys seen = seen_keys(part.mask, part.whole_length);
  seen.query_position = narrow<int32_t>(part.queries.position);
  seen.key_position = narrow<int32_t>(part.keys.position);
  return seen;
}
// What positions let queries see; ranges and layouts, which may have no memory, are not looked at.
inline SeenKeys seen_by_positions(AttentionPart part) {
  part.mask.ranges = {};
  part.mask.layout = {};
  return seen_keys(part);
}

// Every query sees a key, and all before its last one.
inline bool is_plain(const AttentionPart& part) {
  const SeenKeys seen = seen_by_positions(part);
  return part.mask.is_positional() && seen.left >= kFar && seen.right + seen.shift() >= 0 &&
         part.scale == 0 && part.softcap == 0;
}

inline float scale_of(float scale, int64_t head_dim) {
  return scale > 0 ? scale : 1.0F / std::sqrt(static_cast<float>(head_dim));
}

inline AttentionOperands operands_of(const AttentionSpec& spec, const Tensor& qkv, const Tensor& y,
                                     const Tensor& log_sum_exp, const Tensor& dy,
                                     const Tensor& dqkv, const AttentionDropout& dropout) {
  return {.shape = spec.shape,
          .seen = seen_keys(spec.mask.within(spec.shape.length), spec.shape.length),
          .scale = scale_of(spec.scale, spec.shape.head_dim),
          .softcap = spec.softcap,
          .is_plain = spec.is_plain(),
          .has_sink = spec.has_sink,
          .qkv = qkv,
          .y = y,
          .log_sum_exp = log_sum_exp,
          .dy = dy,
          .dqkv = dqkv,
          .dropout = dropout};
}

// The block of random words whose words are of keys key / 4 * 4 .. + 3. `row` numbers queries over
// all samples and heads; each begins with a block of its own.
constexpr uint64_t dropout_block(int64_t row, int64_t length, int64_t key) {
  return static_cast<uint64_t>(row * ((length + 3) / 4) + key / 4);
}

constexpr bool keeps(uint32_t word, float p) { return uniform_of(word) >= p; }

// Multiplies the probabilities of one query by 0 or 1 / (1 - p), for keys [first_key, first_key +
// count); first_key is a multiple of four. `query` numbers those of all heads of the batch.
inline void drop_probabilities(const AttentionOperands& a, int64_t query, int64_t first_key,
                               int64_t count, float* probabilities) {
  const AttentionDropout& dropout = a.dropout;
  const Rng rng = dropout.mask.rng();
  const int64_t head = query / a.shape.length;
  const int64_t number = dropout.head_number(a.shape, head / a.shape.heads, head % a.shape.heads);
  const int64_t row = number * a.shape.length + query % a.shape.length;
  const uint64_t first_block = dropout_block(row, a.shape.length, first_key);
  const float kept = 1.0F / (1.0F - dropout.p);
  for (int64_t j = 0; j < count; j += 4) {
    const auto words = rng.block(first_block + static_cast<uint64_t>(j / 4));
    for (int64_t k = 0; k < std::min<int64_t>(4, count - j); ++k) {
      probabilities[j + k] *= keeps(nth(words, k), dropout.p) ? kept : 0.0F;
    }
  }
}

}  // namespace ds::kernels::detail
