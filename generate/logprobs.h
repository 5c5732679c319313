// How likely a model holds what was drawn (pure): the logarithms of its own distribution, before
// temperature, filters and penalties,
//
//   logprob_i = l_i - log sum_j exp(l_j)
//
// over all ids, padded ones included, as its training loss has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

struct TokenLogprob {
  int32_t id = -1;
  float logprob = 0;
};

// What came next in a text.
struct DrawnToken {
  int32_t id = -1;
  // Both are there where they are wanted.
  float logprob = 0;
  std::vector<TokenLogprob> top{};  // the likeliest first, of equally likely ones the lowest id
};

// The token with its log-probability and the `count` likeliest ids with theirs, without impossible
// ones and those of `never`, which is in ascending order.
DrawnToken with_logprobs(int32_t token, std::span<const float> logits, int64_t count,
                         std::span<const int32_t> never);

}  // namespace ds
