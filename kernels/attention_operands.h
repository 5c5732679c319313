// What the halves of attention hand to each other: operands by reference, and the dropout mask.
// Internal to kernels/.
#pragma once

#include <algorithm>

#include "core/index.h"
#include "kernels/attention.h"

namespace ds::kernels::detail {

struct AttentionOperands {
  AttentionShape shape;
  const Tensor& qkv;
  const Tensor& y;
  const Tensor& log_sum_exp;
  const Tensor& dy;    // backward
  const Tensor& dqkv;  // backward
  const AttentionDropout& dropout;
};

// Multiplies the probabilities of one query for keys [first_key, first_key + count) by 0 or
// 1/(1-p). `row` numbers queries over all samples and heads; rows start at a whole random block,
// and first_key is a multiple of four.
inline void drop_probabilities(const AttentionDropout& dropout, int64_t row, int64_t length,
                               int64_t first_key, int64_t count, float* probabilities) {
  const auto first_block = static_cast<uint64_t>(row * ((length + 3) / 4) + first_key / 4);
  const float kept = 1.0F / (1.0F - dropout.p);
  for (int64_t j = 0; j < count; j += 4) {
    const auto words = dropout.rng.block(first_block + static_cast<uint64_t>(j / 4));
    for (int64_t k = 0; k < std::min<int64_t>(4, count - j); ++k) {
      const float uniform = static_cast<float>(nth(words, k) >> 8) * 0x1p-24F;
      probabilities[j + k] *= uniform >= dropout.p ? kept : 0.0F;
    }
  }
}

}  // namespace ds::kernels::detail
