// Losses of preferences against their formulas in extended precision, and gradients against
// differences of those.
#include "kernels/preference/preference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"

namespace ds::kernels {
namespace {

using namespace reference;
using Wide = long double;

constexpr std::array kLosses{
    PreferenceLoss::kSigmoid, PreferenceLoss::kSigmoidNorm, PreferenceLoss::kHinge,
    PreferenceLoss::kIpo,     PreferenceLoss::kExoPair,     PreferenceLoss::kNcaPair,
    PreferenceLoss::kRobust,  PreferenceLoss::kBcoPair,     PreferenceLoss::kSppoHard,
    PreferenceLoss::kApoZero, PreferenceLoss::kApoDown,     PreferenceLoss::kDiscopop};
constexpr std::array kFreeLosses{PreferenceLoss::kOrpo, PreferenceLoss::kCpo,
                                 PreferenceLoss::kSimpo};

constexpr int32_t kIgnored = -100;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// ---- formulas

Wide likely(Wide z) { return 1 / (1 + std::exp(-z)); }
Wide log_likely(Wide z) { return z < 0 ? z - std::log1p(std::exp(z)) : -std::log1p(std::exp(-z)); }

// One sample: log p of its texts over those of the reference model, or alone, and how many tokens
// they have; the same of the prompt.
struct Pair {
  Wide x = 0, y = 0;
  Wide chosen_tokens = 1, rejected_tokens = 1;
  Wide prompt = 0, prompt_tokens = 0;
};

// What a loss without a reference is beside the likelihood, of rewards per beta.
Wide free_formula(const PreferenceRule& rule, Wide x, Wide y) {
  const Wide e = rule.label_smoothing;
  const Wide odds = x - y - std::log1p(-std::exp(x)) + std::log1p(-std::exp(y));
  if (rule.loss == PreferenceLoss::kOrpo) return -rule.beta * log_likely(odds);
  const Wide z =
      rule.beta * (x - y) - (rule.loss == PreferenceLoss::kSimpo ? rule.simpo_gamma : Wide{0});
  return -(1 - e) * log_likely(z) - e * log_likely(-z);
}

Wide formula(const PreferenceRule& rule, const Pair& pair) {
  const Wide beta = rule.beta, e = rule.label_smoothing, x = pair.x, y = pair.y;
  const Wide z = beta * (x - y);
  const Wide per_token =
      x / std::max(pair.chosen_tokens, Wide{1}) - y / std::max(pair.rejected_tokens, Wide{1});
  const Wide mixed = likely(z / rule.discopop_tau);
  switch (rule.loss) {
    case PreferenceLoss::kSigmoid:
      return -log_likely(z);
    case PreferenceLoss::kSigmoidNorm:
      return -log_likely(beta * per_token);
    case PreferenceLoss::kHinge:
      return std::max(1 - z, Wide{0});
    case PreferenceLoss::kIpo:
      return std::pow(per_token - 1 / (2 * beta), 2);
    case PreferenceLoss::kExoPair:
      return likely(z) * (log_likely(z) - std::log(1 - e)) +
             likely(-z) * (log_likely(-z) - std::log(e));
    case PreferenceLoss::kNcaPair:
      return -log_likely(beta * x) - log_likely(-beta * x) / 2 - log_likely(-beta * y) / 2;
    case PreferenceLoss::kRobust:
      return (-(1 - e) * log_likely(z) + e * log_likely(-z)) / (1 - 2 * e);
    case PreferenceLoss::kBcoPair:
      return -log_likely(beta * x) - log_likely(-beta * y);
    case PreferenceLoss::kSppoHard:
      return std::pow(x - 1 / (2 * beta), 2) + std::pow(y + 1 / (2 * beta), 2);
    case PreferenceLoss::kApoZero:
      return likely(-beta * x) + likely(beta * y);
    case PreferenceLoss::kApoDown:
      return likely(beta * x) + likely(-z);
    case PreferenceLoss::kDiscopop:
      return -log_likely(z) * (1 - mixed) + std::exp(-z) * mixed;
    case PreferenceLoss::kOrpo:
    case PreferenceLoss::kSimpo:
      return free_formula(rule, x / pair.chosen_tokens, y / pair.rejected_tokens);
    case PreferenceLoss::kCpo:
      return free_formula(rule, x, y);
  }
  return 0;
}

// ---- sums

// Rows of samples: those without loss have none that could be added.
struct Rows {
  Rows(int64_t samples, int64_t length, uint64_t seed) {
    const Rng rng(seed, "preference rows");
    for (uint64_t row = 0; row < static_cast<uint64_t>(samples * length); ++row) {
      const double which = rng.uniform(3 * row);
      targets.push_back(which < 0.2 ? kIgnored : static_cast<int32_t>(row % 7));
      sides.push_back(static_cast<int32_t>(5 * rng.uniform(3 * row + 1)) - 2);
      losses.push_back(which < 0.2 || sides.back() == 0 ? kNaN : static_cast<float>(8 * which));
    }
  }
  std::vector<int32_t> targets, sides;
  std::vector<float> losses;
};

std::vector<double> doubles_of(const Tensor& tensor) {
  const Tensor on_host = testing::host_copy(tensor);
  return {on_host.data<double>(), on_host.data<double>() + on_host.numel()};
}

void check_sums(TestStream& s, int64_t samples, int64_t length) {
  const Rows rows(samples, length, 7);
  const Shape all{samples * length};
  const Tensor sums = Tensor::empty({samples, 6}, DType::kF64, s.stream);
  preference_sums(s.stream, {.losses = testing::upload(rows.losses, all, s.stream),
                             .targets = testing::upload(rows.targets, all, s.stream),
                             .sides = testing::upload(rows.sides, all, s.stream),
                             .sums = sums});
  std::vector<double> expected(static_cast<size_t>(6 * samples), 0.0);
  for (size_t row = 0; row < rows.losses.size(); ++row) {
    if (rows.targets[row] < 0 || rows.sides[row] == 0) continue;
    double* const own = expected.data() + row / static_cast<size_t>(length) * 6;
    const int side = rows.sides[row];
    const int likely = side == kPromptSide ? 4 : side > 0 ? 0 : 1;
    own[likely] -= static_cast<double>(rows.losses[row]);
    own[likely + (side == kPromptSide ? 1 : 2)] += 1;
  }
  const std::vector<double> got = doubles_of(sums);
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(std::abs(got[i] - expected[i]) <= 1e-13 * std::abs(expected[i]));
  }
}

TEST_CASE("texts that are compared have the sums of their own tokens", "[kernels][device]") {
  TestStream s;
  for (const int64_t samples : {1, 2, 5}) {
    for (const int64_t length : {0, 1, 3, 32, 70, 1000}) {
      INFO(samples << " of " << length);
      check_sums(s, samples, length);
    }
  }
  check_sums(s, 4100, 2);  // more of them than a grid has blocks
}

// ---- losses

// What preference_loss() makes of pairs, whose samples have five rows: of the chosen text, of the
// rejected one, of neither, one without loss, and one of the prompt.
constexpr size_t kRows = 5;
struct Outcome {
  Values losses, figures, weights;
};

Outcome outcome_of(TestStream& s, const PreferenceRule& rule, const std::vector<Pair>& pairs) {
  const auto samples = static_cast<int64_t>(pairs.size());
  const Rng rng(3, "reference model");
  const double told = has_reference(rule.loss) ? 16 : 0;
  std::vector<double> sums, reference;
  std::vector<int32_t> targets, sides;
  for (const Pair& pair : pairs) {
    const uint64_t at = reference.size();
    reference.insert(reference.end(), {told * rng.normal(at), told * rng.normal(at + 1)});
    sums.insert(sums.end(),
                {static_cast<double>(reference[at] + pair.x),
                 static_cast<double>(reference[at + 1] + pair.y),
                 static_cast<double>(pair.chosen_tokens), static_cast<double>(pair.rejected_tokens),
                 static_cast<double>(pair.prompt), static_cast<double>(pair.prompt_tokens)});
    targets.insert(targets.end(), {5, 0, 1, kIgnored, 7});
    sides.insert(sides.end(), {1, -1, 0, 1, kPromptSide});
  }
  PreferenceLossArgs args{
      .rule = rule,
      .sums = testing::upload(sums, {samples, 6}, s.stream),
      .targets = testing::upload(targets, {static_cast<int64_t>(kRows) * samples}, s.stream),
      .sides = testing::upload(sides, {static_cast<int64_t>(kRows) * samples}, s.stream),
      .losses = Tensor::empty({samples}, DType::kF32, s.stream),
      .figures = Tensor::empty({4, samples}, DType::kF32, s.stream),
      .row_weights = Tensor::empty({static_cast<int64_t>(kRows) * samples}, DType::kF32, s.stream)};
  if (has_reference(rule.loss)) {
    args.reference = testing::upload(reference, {samples, 2}, s.stream);
  }
  preference_loss(s.stream, args);
  PreferenceLossArgs alone = args;
  alone.figures = alone.row_weights = Tensor();
  alone.losses = Tensor::empty({samples}, DType::kF32, s.stream);
  preference_loss(s.stream, alone);
  REQUIRE(same_bits(alone.losses, args.losses));
  return {values_of(args.losses), values_of(args.figures), values_of(args.row_weights)};
}

// Differences of the formula in extended precision.
Wide slope_of(const PreferenceRule& rule, const Pair& pair, Wide Pair::*by) {
  constexpr Wide kStep = 1e-5L;
  Pair above = pair, below = pair;
  above.*by += kStep;
  below.*by -= kStep;
  return (formula(rule, above) - formula(rule, below)) / (2 * kStep);
}

// fp32 has half of this.
bool is_near(double got, Wide expected) {
  return std::abs(static_cast<Wide>(got) - expected) <= 1.5e-7L * std::abs(expected) + 2e-9L;
}

void check_pairs(TestStream& s, const PreferenceRule& rule, const std::vector<Pair>& pairs) {
  const Outcome got = outcome_of(s, rule, pairs);
  const size_t samples = pairs.size();
  for (size_t i = 0; i < samples; ++i) {
    const Pair& pair = pairs[i];
    CAPTURE(static_cast<int>(rule.loss), rule.beta, static_cast<double>(pair.x),
            static_cast<double>(pair.y));
    CHECK(is_near(got.losses[i], formula(rule, pair)));
    CHECK(is_near(got.weights[kRows * i], -slope_of(rule, pair, &Pair::x)));
    CHECK(is_near(got.weights[kRows * i + 1], -slope_of(rule, pair, &Pair::y)));
    CHECK(got.weights[kRows * i + 2] == 0);
    CHECK(got.weights[kRows * i + 3] == 0);
    CHECK(is_near(got.figures[i], rule.beta * pair.x));
    CHECK(is_near(got.figures[samples + i], rule.beta * pair.y));
    CHECK(got.figures[2 * samples + i] == (pair.x > pair.y ? 1 : 0));
    CHECK(is_near(got.figures[3 * samples + i], rule.beta * (pair.x - pair.y)));
  }
}

std::vector<Pair> random_pairs(size_t count, double spread, uint64_t seed) {
  const Rng rng(seed, "preference pairs");
  std::vector<Pair> pairs;
  for (uint64_t i = 0; i < count; ++i) {
    pairs.push_back({.x = spread * rng.normal(4 * i),
                     .y = spread * rng.normal(4 * i + 1),
                     .chosen_tokens = std::floor(40 * rng.uniform(4 * i + 2)),
                     .rejected_tokens = std::floor(3 * rng.uniform(4 * i + 3))});
  }
  return pairs;
}

TEST_CASE("losses of preferences are what their formulas say, and gradients their differences",
          "[kernels][device]") {
  TestStream s;
  for (const PreferenceLoss loss : kLosses) {
    for (const double beta : {0.1, 0.5, 2.0}) {
      for (const double smoothing : {0.05, 0.4}) {
        const PreferenceRule rule{.loss = loss, .beta = beta, .label_smoothing = smoothing};
        check_pairs(s, rule, random_pairs(50, 0.3 / beta, 1));
        check_pairs(s, rule, random_pairs(50, 4 / beta, 2));
      }
    }
  }
}

// The mean over the tokens of the chosen texts of a micro-batch, and of their prompts, by sums.
Wide mean_of_likely(const std::vector<Pair>& pairs) {
  Wide sum = 0, tokens = 0;
  for (const Pair& pair : pairs) {
    sum -= pair.x + pair.prompt;
    tokens += pair.chosen_tokens + pair.prompt_tokens;
  }
  return sum / std::max(tokens, Wide{1});
}

std::vector<Pair> likely_pairs(size_t count, double spread, uint64_t seed) {
  std::vector<Pair> pairs = random_pairs(count, spread, seed);
  for (size_t i = 0; i < count; ++i) {
    Pair& pair = pairs[i];
    pair.chosen_tokens += 1;
    pair.rejected_tokens += 1;
    pair.x = -std::abs(pair.x) * pair.chosen_tokens - 0.1L;
    pair.y = -std::abs(pair.y) * pair.rejected_tokens - 0.1L;
    if (i % 3 != 0) pair.prompt = -static_cast<Wide>(i), pair.prompt_tokens = 1 + (i % 7);
  }
  return pairs;
}

void check_free_pairs(TestStream& s, const PreferenceRule& rule, const std::vector<Pair>& pairs) {
  const Outcome got = outcome_of(s, rule, pairs);
  const auto samples = static_cast<double>(pairs.size());
  const double factor = rule.loss == PreferenceLoss::kOrpo ? 1 : rule.cpo_alpha;
  Wide tokens = 0, mean = 0, preferred = 0;
  for (const Pair& pair : pairs) tokens += pair.chosen_tokens + pair.prompt_tokens;
  const Wide likelihood = factor * samples / tokens;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    CAPTURE(static_cast<int>(rule.loss), rule.beta, i, static_cast<double>(pair.x),
            static_cast<double>(pair.y));
    const Wide by_itself = formula(rule, pair);
    CHECK(is_near(got.losses[i], by_itself - likelihood * (pair.x + pair.prompt)));
    CHECK(is_near(got.weights[kRows * i], likelihood - slope_of(rule, pair, &Pair::x)));
    CHECK(is_near(got.weights[kRows * i + 1], -slope_of(rule, pair, &Pair::y)));
    CHECK(got.weights[kRows * i + 2] == 0);
    CHECK(got.weights[kRows * i + 3] == 0);
    CHECK(is_near(got.weights[kRows * i + 4], likelihood));
    const bool is_sum = rule.loss == PreferenceLoss::kCpo;
    const Wide chosen = rule.beta * pair.x / (is_sum ? 1 : pair.chosen_tokens);
    const Wide rejected = rule.beta * pair.y / (is_sum ? 1 : pair.rejected_tokens);
    CHECK(is_near(got.figures[i], chosen));
    CHECK(is_near(got.figures[pairs.size() + i], rejected));
    CHECK(got.figures[2 * pairs.size() + i] == (chosen > rejected ? 1 : 0));
    CHECK(is_near(got.figures[3 * pairs.size() + i], chosen - rejected));
    mean += got.losses[i] / samples;
    preferred += by_itself / samples;
  }
  CHECK(std::abs(mean - preferred - factor * mean_of_likely(pairs)) <= 1e-6L * std::abs(mean));
}

TEST_CASE("losses without a reference are of preferences and of one mean over likely tokens",
          "[kernels][device]") {
  TestStream s;
  for (const PreferenceLoss loss : kFreeLosses) {
    for (const double beta : {0.1, 0.5, 2.0}) {
      const PreferenceRule rule{.loss = loss, .beta = beta};
      for (const size_t samples : {1, 3, 50, 300}) {
        check_free_pairs(s, rule, likely_pairs(samples, 2, samples));
      }
    }
    if (loss == PreferenceLoss::kOrpo) continue;
    check_free_pairs(s, {.loss = loss, .label_smoothing = 0.3, .cpo_alpha = 0.25, .simpo_gamma = 2},
                     likely_pairs(50, 3, 5));
    check_free_pairs(s, {.loss = loss, .cpo_alpha = 0}, likely_pairs(50, 3, 6));
  }
}

TEST_CASE("texts without a reference that are certain, or out of the question, have finite losses",
          "[kernels][device]") {
  TestStream s;
  std::vector<Pair> pairs;
  for (const double x : {-5e4, -1.0, -1e-9, 0.0}) {
    for (const double y : {-5e4, -1.0, -1e-9, 0.0}) pairs.push_back({.x = x, .y = y});
  }
  pairs.push_back({.x = 0, .y = 0, .chosen_tokens = 0, .rejected_tokens = 0});
  for (const PreferenceLoss loss : kFreeLosses) {
    const Outcome got = outcome_of(s, {.loss = loss}, pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      CAPTURE(static_cast<int>(loss), i);
      CHECK(std::isfinite(got.losses[i]));
      CHECK(std::isfinite(got.weights[kRows * i]));
      CHECK(std::isfinite(got.weights[kRows * i + 1]));
    }
  }
  // The gradient of a text that is certain goes on: that of its odds grows as their weight falls.
  const Outcome certain =
      outcome_of(s, {.loss = PreferenceLoss::kOrpo, .beta = 1}, {{.x = 0, .y = -1}});
  const double odds = std::exp(-1.0) / (1 - std::exp(-1.0));
  CHECK(certain.weights[0] == Approx(1 + odds).epsilon(1e-5));
}

TEST_CASE("a loss of preferences that is told nothing smooths nothing", "[kernels][device]") {
  TestStream s;
  check_pairs(s, {.loss = PreferenceLoss::kRobust}, random_pairs(20, 20, 3));
  check_pairs(s, {}, random_pairs(20, 20, 3));
}

TEST_CASE("discovered losses of preferences mix by their own temperature", "[kernels][device]") {
  TestStream s;
  for (const double tau : {0.3, 1.0, 4.0}) {
    check_pairs(s, {.loss = PreferenceLoss::kDiscopop, .discopop_tau = tau},
                random_pairs(50, 20, 4));
  }
}

TEST_CASE("texts that are equally likely have no better one", "[kernels][device]") {
  TestStream s;
  std::vector<Pair> pairs(3);
  pairs[1] = {.x = 0.5, .y = 0.5, .chosen_tokens = 0, .rejected_tokens = 0};
  for (const PreferenceLoss loss : kLosses) {
    check_pairs(s, {.loss = loss, .label_smoothing = 0.25}, pairs);
  }
}

TEST_CASE("preferences far from even have finite losses and gradients", "[kernels][device]") {
  TestStream s;
  std::vector<Pair> pairs;
  for (const double x : {-5e4, -5e3, 0.0, 5e3, 5e4}) {
    for (const double y : {-5e4, -5e3, 5e3, 5e4}) pairs.push_back({.x = x, .y = y});
  }
  for (const PreferenceLoss loss : kLosses) {
    const PreferenceRule rule{.loss = loss, .beta = 0.1, .label_smoothing = 0.1};
    const Outcome got = outcome_of(s, rule, pairs);
    for (size_t i = 0; i < pairs.size(); ++i) {
      CAPTURE(static_cast<int>(loss), i);
      CHECK(std::isfinite(got.losses[i]));
      CHECK(std::isfinite(got.weights[kRows * i]));
      CHECK(std::isfinite(got.weights[kRows * i + 1]));
      CHECK(is_near(got.losses[i], formula(rule, pairs[i])));
    }
  }
}

TEST_CASE("a discovered loss of a warm mixture grows without end, but is a number",
          "[kernels][device]") {
  TestStream s;
  const PreferenceRule rule{.loss = PreferenceLoss::kDiscopop, .beta = 1, .discopop_tau = 4};
  const Outcome got = outcome_of(s, rule, {{.x = -1e4, .y = 0}});
  CHECK(got.losses[0] == std::numeric_limits<double>::infinity());
  CHECK(got.weights[0] == std::numeric_limits<double>::infinity());
  CHECK(got.weights[1] == -std::numeric_limits<double>::infinity());
}

// ---- what is refused

TEST_CASE("sums of preferences want whole samples", "[kernels]") {
  TestStream s;
  const auto made = [&](const Shape& shape, DType dtype) {
    return Tensor::zeros(shape, dtype, s.stream);
  };
  const PreferenceSumsArgs right{.losses = made({6}, DType::kF32),
                                 .targets = made({6}, DType::kI32),
                                 .sides = made({6}, DType::kI32),
                                 .sums = made({2, 6}, DType::kF64)};
  const auto refused = [&](Tensor PreferenceSumsArgs::*operand, const Tensor& wrong) {
    PreferenceSumsArgs args = right;
    args.*operand = wrong;
    CHECK_THROWS_AS(preference_sums(s.stream, args), InternalError);
  };
  CHECK_NOTHROW(preference_sums(s.stream, right));
  refused(&PreferenceSumsArgs::losses, made({5}, DType::kF32));
  refused(&PreferenceSumsArgs::losses, made({6}, DType::kBF16));
  refused(&PreferenceSumsArgs::targets, {});
  refused(&PreferenceSumsArgs::targets, made({4}, DType::kI32));
  refused(&PreferenceSumsArgs::sides, made({2}, DType::kI32));
  refused(&PreferenceSumsArgs::sums, {});
  refused(&PreferenceSumsArgs::sums, made({2, 6}, DType::kF32));
  refused(&PreferenceSumsArgs::sums, made({6, 2}, DType::kF64));
  refused(&PreferenceSumsArgs::sums, made({5, 6}, DType::kF64));
  refused(&PreferenceSumsArgs::sums, made({0, 6}, DType::kF64));
  const PreferenceSumsArgs none{.losses = made({0}, DType::kF32),
                                .targets = made({0}, DType::kI32),
                                .sides = made({0}, DType::kI32),
                                .sums = made({0, 6}, DType::kF64)};
  CHECK_NOTHROW(preference_sums(s.stream, none));
}

TEST_CASE("losses of preferences want operands of their samples", "[kernels]") {
  TestStream s;
  const auto made = [&](const Shape& shape, DType dtype) {
    return Tensor::zeros(shape, dtype, s.stream);
  };
  const PreferenceLossArgs right{.sums = made({2, 6}, DType::kF64),
                                 .reference = made({2, 2}, DType::kF64),
                                 .targets = made({6}, DType::kI32),
                                 .sides = made({6}, DType::kI32),
                                 .losses = made({2}, DType::kF32),
                                 .figures = made({4, 2}, DType::kF32),
                                 .row_weights = made({6}, DType::kF32)};
  const auto refused = [&](Tensor PreferenceLossArgs::*operand, const Tensor& wrong) {
    PreferenceLossArgs args = right;
    args.*operand = wrong;
    CHECK_THROWS_AS(preference_loss(s.stream, args), InternalError);
  };
  CHECK_NOTHROW(preference_loss(s.stream, right));
  refused(&PreferenceLossArgs::sums, made({2, 3}, DType::kF64));
  refused(&PreferenceLossArgs::reference, made({2, 2}, DType::kF32));
  refused(&PreferenceLossArgs::reference, made({2}, DType::kF64));
  refused(&PreferenceLossArgs::targets, made({5}, DType::kI32));
  refused(&PreferenceLossArgs::sides, {});
  refused(&PreferenceLossArgs::losses, made({6}, DType::kF32));
  refused(&PreferenceLossArgs::figures, made({3, 2}, DType::kF32));
  refused(&PreferenceLossArgs::row_weights, made({6}, DType::kF64));
  const auto refuses = [&](const PreferenceRule& rule, const char* message) {
    PreferenceLossArgs args = right;
    args.rule = rule;
    CHECK_THROWS_WITH(preference_loss(s.stream, args), Catch::Contains(message));
  };
  refuses({.beta = 0}, "beta is 0, expected more than 0");
  refuses({.loss = PreferenceLoss::kExoPair}, "label_smoothing of exo_pair is 0, expected 0 <");
  refuses({.loss = PreferenceLoss::kExoPair, .label_smoothing = 1}, "exo_pair is 1");
  refuses({.loss = PreferenceLoss::kRobust, .label_smoothing = 0.5},
          "robust is 0.5, expected 0 <=");
  refuses({.loss = PreferenceLoss::kRobust, .label_smoothing = -0.1}, "robust is -0.1");
  refuses({.loss = PreferenceLoss::kDiscopop, .discopop_tau = 0}, "discopop_tau is 0");
  refuses({.loss = PreferenceLoss::kOrpo}, "a reference for a loss that has none");
  refuses({.loss = PreferenceLoss::kCpo, .label_smoothing = 1}, "cpo and simpo is 1");
  refuses({.loss = PreferenceLoss::kSimpo, .cpo_alpha = -1}, "cpo_alpha is -1");
  PreferenceLossArgs without = right;
  without.reference = {};
  CHECK_THROWS_AS(preference_loss(s.stream, without), InternalError);
  without.rule.loss = PreferenceLoss::kCpo;
  CHECK_NOTHROW(preference_loss(s.stream, without));
}

}  // namespace
}  // namespace ds::kernels
