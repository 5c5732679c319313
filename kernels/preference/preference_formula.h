// The formulas of kernels/preference (pure), for both halves. Losses are of rewards, which are
// X = beta x and Y = beta y, or of their margin Z = X - Y; see PreferenceLoss for x and y.
#pragma once

#include <cmath>

#include "kernels/preference/preference_operands.h"

namespace ds::kernels::detail {

inline constexpr int kPreferenceSums = 4;  // of a sample: two of log p, two of tokens
inline constexpr int kPreferenceFigures = 4;

// Adds a row to the sums of its sample, if it has a loss and is of one of the texts; nothing else
// is read of it.
constexpr void add_row(double* sums, int32_t target, int32_t side, const float& loss) {
  if (target < 0 || side == 0) return;
  const double log_p = -static_cast<double>(loss);
  if (side > 0) {
    sums[0] += log_p;
    sums[2] += 1;
  } else {
    sums[1] += log_p;
    sums[3] += 1;
  }
}

constexpr double sigmoid(double z) {
  const double small = std::exp(z < 0 ? z : -z);
  return (z < 0 ? small : 1.0) / (1.0 + small);
}
constexpr double log_sigmoid(double z) {
  return (z < 0 ? z : 0.0) - std::log1p(std::exp(z < 0 ? z : -z));
}
constexpr double sigmoid_slope(double z) { return sigmoid(z) * sigmoid(-z); }

struct MarginLoss {
  double loss = 0;
  double slope = 0;  // d(loss)/dZ
};

constexpr MarginLoss exo_loss(double z, double smoothing) {
  const double of_chosen = std::log1p(-smoothing), of_rejected = std::log(smoothing);
  return {sigmoid(z) * (log_sigmoid(z) - of_chosen) + sigmoid(-z) * (log_sigmoid(-z) - of_rejected),
          sigmoid_slope(z) * (z - of_chosen + of_rejected)};
}

constexpr MarginLoss robust_loss(double z, double smoothing) {
  const double kept = 1 - smoothing, all = 1 - 2 * smoothing;
  return {(smoothing * log_sigmoid(-z) - kept * log_sigmoid(z)) / all,
          -(kept * sigmoid(-z) + smoothing * sigmoid(z)) / all};
}

// e^-Z m is one exponential, so that no infinity meets an m of 0.
constexpr MarginLoss discopop_loss(double z, double tau) {
  const double rest = sigmoid(-z / tau);  // 1 - m
  const double logistic = -log_sigmoid(z), exponential = std::exp(log_sigmoid(z / tau) - z);
  return {logistic * rest + exponential, -sigmoid(-z) * rest -
                                             logistic * sigmoid_slope(z / tau) / tau +
                                             exponential * (rest / tau - 1)};
}

// Those losses that are of the margin alone.
constexpr MarginLoss margin_loss(const PreferenceRule& rule, double z) {
  switch (rule.loss) {
    case PreferenceLoss::kHinge:
      return z >= 1 ? MarginLoss{} : MarginLoss{1 - z, -1};
    case PreferenceLoss::kIpo: {
      const double apart = (z - 0.5) / rule.beta;
      return {apart * apart, 2 * apart / rule.beta};
    }
    case PreferenceLoss::kExoPair:
      return exo_loss(z, rule.label_smoothing);
    case PreferenceLoss::kRobust:
      return robust_loss(z, rule.label_smoothing);
    case PreferenceLoss::kDiscopop:
      return discopop_loss(z, rule.discopop_tau);
    default:
      return {-log_sigmoid(z), -sigmoid(-z)};
  }
}

struct PairLoss {
  double loss = 0;
  double by_chosen = 0;  // d(loss)/dX
  double by_rejected = 0;
};

constexpr PairLoss pair_loss(const PreferenceRule& rule, double x, double y) {
  switch (rule.loss) {
    case PreferenceLoss::kNcaPair:
      return {-log_sigmoid(x) - 0.5 * (log_sigmoid(-x) + log_sigmoid(-y)),
              0.5 * sigmoid(x) - sigmoid(-x), 0.5 * sigmoid(y)};
    case PreferenceLoss::kBcoPair:
      return {-log_sigmoid(x) - log_sigmoid(-y), -sigmoid(-x), sigmoid(y)};
    case PreferenceLoss::kSppoHard: {
      const double short_of = (x - 0.5) / rule.beta, above = (y + 0.5) / rule.beta;
      return {short_of * short_of + above * above, 2 * short_of / rule.beta, 2 * above / rule.beta};
    }
    case PreferenceLoss::kApoZero:
      return {sigmoid(-x) + sigmoid(y), -sigmoid_slope(x), sigmoid_slope(y)};
    case PreferenceLoss::kApoDown:
      return {sigmoid(x) + sigmoid(y - x), sigmoid_slope(x) - sigmoid_slope(x - y),
              sigmoid_slope(x - y)};
    default: {
      const MarginLoss margin = margin_loss(rule, x - y);
      return {margin.loss, margin.slope, -margin.slope};
    }
  }
}

struct SampleLoss {
  double loss = 0;
  double rewards[2] = {};  // of chosen, of rejected
  double weights[2] = {};  // d(loss)/d(-log p) of each
};

constexpr double at_least_one(double tokens) { return tokens > 1 ? tokens : 1.0; }

constexpr SampleLoss sample_loss(const PreferenceRule& rule, const double* sums,
                                 const double* reference) {
  const bool per_token =
      rule.loss == PreferenceLoss::kSigmoidNorm || rule.loss == PreferenceLoss::kIpo;
  const double of_chosen = per_token ? at_least_one(sums[2]) : 1.0;
  const double of_rejected = per_token ? at_least_one(sums[3]) : 1.0;
  const double chosen = rule.beta * (sums[0] - reference[0]);
  const double rejected = rule.beta * (sums[1] - reference[1]);
  const PairLoss pair = pair_loss(rule, chosen / of_chosen, rejected / of_rejected);
  return {pair.loss,
          {chosen, rejected},
          {-rule.beta * pair.by_chosen / of_chosen, -rule.beta * pair.by_rejected / of_rejected}};
}

constexpr float row_weight(const SampleLoss& sample, int32_t target, int32_t side) {
  if (target < 0 || side == 0) return 0.0F;
  return static_cast<float>(sample.weights[side > 0 ? 0 : 1]);
}

// What a sample has in losses and, unless they are null, in figures of `samples` each.
constexpr void write_sample(const SampleLoss& sample, int64_t at, int64_t samples, float* losses,
                            float* figures) {
  losses[at] = static_cast<float>(sample.loss);
  if (figures == nullptr) return;
  const double chosen = sample.rewards[0], rejected = sample.rewards[1];
  figures[at] = static_cast<float>(chosen);
  figures[samples + at] = static_cast<float>(rejected);
  figures[2 * samples + at] = chosen > rejected ? 1.0F : 0.0F;
  figures[3 * samples + at] = static_cast<float>(chosen - rejected);
}

}  // namespace ds::kernels::detail
