// The formulas of kernels/preference (pure), for both halves. Losses are of rewards, which are
// X = beta x and Y = beta y, or of their margin Z = X - Y; see PreferenceLoss for x and y.
#pragma once

#include <cmath>

#include "kernels/preference/preference_operands.h"

namespace ds::kernels::detail {

// A sample has log p of both texts, their tokens, log p of the prompt, its tokens.
inline constexpr int kPreferenceSums = 6;
inline constexpr int kPreferenceFigures = 4;

// Adds a row to the sums of its sample, if it has a loss and is of one of the texts; nothing else
// is read of it.
constexpr void add_row(double* sums, int32_t target, int32_t side, const float& loss) {
  if (target < 0 || side == 0) return;
  const double log_p = -static_cast<double>(loss);
  if (side == kPromptSide) {
    sums[4] += log_p;
    sums[5] += 1;
  } else if (side > 0) {
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

constexpr MarginLoss smoothed_loss(double z, double smoothing) {
  const double kept = 1 - smoothing;
  return {-kept * log_sigmoid(z) - smoothing * log_sigmoid(-z),
          smoothing * sigmoid(z) - kept * sigmoid(-z)};
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
    case PreferenceLoss::kCpo:
      return smoothed_loss(z, rule.label_smoothing);
    case PreferenceLoss::kSimpo:
      return smoothed_loss(z - rule.simpo_gamma, rule.label_smoothing);
    default:
      return {-log_sigmoid(z), -sigmoid(-z)};
  }
}

struct PairLoss {
  double loss = 0;
  double by_chosen = 0;  // d(loss)/dX
  double by_rejected = 0;
};

// o(v) = v - log(1 - e^v), and its derivative 1 / (1 - e^v). fp32 has no probability between this
// one and 1, whose odds have no end.
struct LogOdds {
  double value = 0;
  double slope = 0;
};
constexpr LogOdds log_odds(double v) {
  constexpr double kMost = -0x1p-24;
  const double log_p = v < kMost ? v : kMost;
  const double rest = -std::expm1(log_p);
  return {log_p - std::log(rest), 1 / rest};
}
constexpr PairLoss odds_ratio_loss(double beta, double x, double y) {
  const LogOdds chosen = log_odds(x / beta), rejected = log_odds(y / beta);
  const double z = chosen.value - rejected.value;
  return {-beta * log_sigmoid(z), -sigmoid(-z) * chosen.slope, sigmoid(-z) * rejected.slope};
}

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
    case PreferenceLoss::kOrpo:
      return odds_ratio_loss(rule.beta, x, y);
    default: {
      const MarginLoss margin = margin_loss(rule, x - y);
      return {margin.loss, margin.slope, -margin.slope};
    }
  }
}

struct SampleLoss {
  double loss = 0;
  double rewards[2] = {};  // of chosen, of rejected
  double weights[2] = {};  // d(loss)/d(-log p) of each, for what is of the pair
  double likelihood = 0;   // what a token of the chosen text and its prompt weighs beside that
};

constexpr double at_least_one(double tokens) { return tokens > 1 ? tokens : 1.0; }

constexpr double likelihood_factor(const PreferenceRule& rule) {
  if (has_reference(rule.loss)) return 0.0;
  return rule.loss == PreferenceLoss::kOrpo ? 1.0 : rule.cpo_alpha;
}
// The tokens of a sample whose likelihood is learnt. Sums of such counts are exact in any order.
constexpr double likely_tokens(const double* sums) { return sums[2] + sums[5]; }
// What each of them weighs in a micro-batch that has so many of them, so that the mean of its
// samples' losses has the mean over its tokens.
constexpr double likelihood_of_token(const PreferenceRule& rule, int64_t samples, double tokens) {
  return likelihood_factor(rule) * static_cast<double>(samples) / at_least_one(tokens);
}

constexpr bool is_per_token(PreferenceLoss loss) {
  return loss == PreferenceLoss::kSigmoidNorm || loss == PreferenceLoss::kIpo ||
         loss == PreferenceLoss::kOrpo || loss == PreferenceLoss::kSimpo;
}

// reference: null where the loss has none; likelihood: of likelihood_of_token().
constexpr SampleLoss sample_loss(const PreferenceRule& rule, const double* sums,
                                 const double* reference, double likelihood) {
  const bool per_token = is_per_token(rule.loss), compares = has_reference(rule.loss);
  const double of_chosen = per_token ? at_least_one(sums[2]) : 1.0;
  const double of_rejected = per_token ? at_least_one(sums[3]) : 1.0;
  const double chosen = rule.beta * (compares ? sums[0] - reference[0] : sums[0]);
  const double rejected = rule.beta * (compares ? sums[1] - reference[1] : sums[1]);
  const double x = chosen / of_chosen, y = rejected / of_rejected;
  const PairLoss pair = pair_loss(rule, x, y);
  return {pair.loss - likelihood * (sums[0] + sums[4]),
          {compares ? chosen : x, compares ? rejected : y},
          {-rule.beta * pair.by_chosen / of_chosen, -rule.beta * pair.by_rejected / of_rejected},
          likelihood};
}

constexpr float row_weight(const SampleLoss& sample, int32_t target, int32_t side) {
  if (target < 0 || side == 0) return 0.0F;
  if (side == kPromptSide) return static_cast<float>(sample.likelihood);
  return static_cast<float>(side > 0 ? sample.weights[0] + sample.likelihood : sample.weights[1]);
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
