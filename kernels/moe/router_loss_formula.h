// The formulas of kernels/moe/router_loss (pure), for both halves.
#pragma once

#include <cmath>
#include <cstdint>

namespace ds::kernels::detail {

// Scores of so many tokens are added up first; then these sums are, in their order.
inline constexpr int64_t kTokensOfSum = 256;

// `sum` is that of the scores of each expert times its counts.
constexpr double balance_loss_of(double sum, int64_t tokens, int64_t experts, int64_t choices) {
  if (tokens == 0) return 0;
  const double squared = static_cast<double>(tokens) * static_cast<double>(tokens);
  return sum / squared * static_cast<double>(experts) / static_cast<double>(choices);
}

// The z-losses of tokens are added up by so many lanes, each those that many apart; then the sums
// of lanes are, in their order.
inline constexpr int64_t kLanesOfSum = 256;
constexpr double sum_of_lane(const double* values, int64_t count, int64_t lane) {
  double sum = 0;
  for (int64_t i = lane; i < count; i += kLanesOfSum) sum += values[i];
  return sum;
}

// d(mean of squares)/d(logit) of a token with this log-sum-exp.
constexpr float z_slope(double log_sum_exp, float logit, int64_t tokens, float scale) {
  const double share = std::exp(static_cast<double>(logit) - log_sum_exp);
  return static_cast<float>(2 * log_sum_exp * share / static_cast<double>(tokens) *
                            static_cast<double>(scale));
}

}  // namespace ds::kernels::detail
