// The formulas of routing (pure), with which both halves give the same bits: numbers and the
// choices of one token, without containers.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/moe/route_operands.h"

namespace ds::kernels::detail {

// Rounded once from fp64, so that every device's library gives the same number.
constexpr float exponential(float x) {
  return static_cast<float>(std::exp(static_cast<double>(x)));
}
constexpr float router_sigmoid(float x) {
  return static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(x))));
}

// Keys order as the numbers do: equal ones have equal keys, NaN has that of minus infinity. None
// is 0.
constexpr uint32_t order_key(float x) {
  if (x != x) x = -std::numeric_limits<float>::infinity();
  const auto bits = std::bit_cast<uint32_t>(x == 0 ? 0.0F : x);
  return (bits >> 31U) != 0 ? ~bits : bits | 0x80000000U;
}
// The largest key is that of the largest number, and of equal ones that of the lowest index.
constexpr uint64_t choice_key(float x, int64_t index) {
  return static_cast<uint64_t>(order_key(x)) << 32U | (0xffffffffU - static_cast<uint32_t>(index));
}
constexpr int32_t index_of_key(uint64_t key) {
  return static_cast<int32_t>(0xffffffffU - static_cast<uint32_t>(key));
}

constexpr bool ranks_by_score(const RouteRule& rule, bool has_bias) {
  return has_bias || (rule.groups > 1 && rule.group_score == GroupScore::kSumOfTwo);
}

// What a group is ranked by, of the ranks of its experts.
constexpr float group_rank(GroupScore score, const float* ranks, int64_t size) {
  float first = -std::numeric_limits<float>::infinity(), second = first;
  for (int64_t e = 0; e < size; ++e) {
    if (order_key(ranks[e]) > order_key(first)) {
      second = first;
      first = ranks[e];
    } else if (order_key(ranks[e]) > order_key(second)) {
      second = ranks[e];
    }
  }
  return score == GroupScore::kLargest ? first : first + second;
}

// What scores are divided by to become weights, before the scale.
constexpr float weight_divisor(WeightSum how, float sum) {
  constexpr float kEpsilon = std::numeric_limits<float>::epsilon();
  switch (how) {
    case WeightSum::kAsIs:
      return 1.0F;
    case WeightSum::kOneWithEpsilon:
      return sum + 1e-20F;
    case WeightSum::kOneClamped:
      return sum < kEpsilon ? kEpsilon : sum;
    case WeightSum::kOne:
      break;
  }
  return sum;
}
// Whether the divisor changes with the sum.
constexpr bool divisor_follows_sum(WeightSum how, float sum) {
  return how != WeightSum::kAsIs &&
         (how != WeightSum::kOneClamped || weight_divisor(how, sum) == sum);
}

// The sum of the scores of a token's choices, in their order, without those that were dropped.
constexpr float chosen_sum(const RouteRule& rule, const float* scores, const int32_t* experts) {
  float sum = 0;
  for (int64_t j = 0; j < rule.choices; ++j) {
    if (experts[j] >= 0 && experts[j] < rule.experts) sum += scores[experts[j]];
  }
  return sum;
}

constexpr void weigh_choices(const RouteRule& rule, const float* scores, const int32_t* experts,
                             float* weights) {
  const float divisor = weight_divisor(rule.weight_sum, chosen_sum(rule, scores, experts));
  for (int64_t j = 0; j < rule.choices; ++j) {
    const bool is_kept = experts[j] >= 0 && experts[j] < rule.experts;
    weights[j] = is_kept ? scores[experts[j]] / divisor * rule.scale : 0.0F;
  }
}

// The gradient of the scores of a token's choices: d(loss)/d(score of choice j) is
// scale / divisor * (dweight_j - mean), where the mean of dweights by weight is 0 unless the
// divisor follows the sum.
struct WeightGradient {
  float factor = 0, mean = 0;
};
constexpr WeightGradient weight_gradient(const RouteRule& rule, const float* scores,
                                         const int32_t* experts, const float* dweights) {
  const float sum = chosen_sum(rule, scores, experts);
  const float divisor = weight_divisor(rule.weight_sum, sum);
  WeightGradient of{.factor = rule.scale / divisor, .mean = 0};
  if (!divisor_follows_sum(rule.weight_sum, sum)) return of;
  for (int64_t j = 0; j < rule.choices; ++j) {
    if (experts[j] < 0 || experts[j] >= rule.experts) continue;
    of.mean += scores[experts[j]] / divisor * dweights[j];
  }
  return of;
}

}  // namespace ds::kernels::detail
