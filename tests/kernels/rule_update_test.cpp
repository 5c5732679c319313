// Lion, Adagrad and SGD over shards, against their formulas in fp64, and every rule on masters of
// fewer bits.
#include "kernels/optimizer/rule_update.h"

#include <array>
#include <bit>
#include <cmath>

#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"

namespace ds::kernels {
namespace {

using namespace reference;

// What each rule does to a weight w and its state s.
void reference_element(const LionRule& rule, const StepInputs& in, double g, double& w, double& s) {
  const double c = in.beta1 * s + (1 - in.beta1) * g;
  const int sign = (c > 0 ? 1 : 0) - (c < 0 ? 1 : 0);
  w = w * (1 - in.lr * rule.weight_decay) - in.lr * sign;
  s = in.beta2 * s + (1 - in.beta2) * g;
}
void reference_element(const AdagradRule& rule, const StepInputs& in, double g, double& w,
                       double& s) {
  const double decayed = g + static_cast<double>(rule.weight_decay) * w;
  s += decayed * decayed;
  w -= in.lr * g / (std::sqrt(s) + static_cast<double>(rule.eps));
}
void reference_element(const SgdRule& rule, const StepInputs& in, double g, double& w, double& s) {
  g += static_cast<double>(rule.weight_decay) * w;
  if (rule.states() != 0) {
    const double momentum = rule.momentum;
    s = in.step == 1 ? g : momentum * s + static_cast<double>(rule.rest) * g;
    g = rule.nesterov ? g + momentum * s : s;
  }
  w -= in.lr * g;
}

StepInputs inputs_of(int64_t step) {
  return {.lr = static_cast<double>(1e-2F),
          .beta1 = static_cast<double>(0.9F),
          .beta2 = static_cast<double>(0.99F),
          .step = step};
}

std::vector<StateTensor> states_of(const Tensor& state) {
  if (!state.defined()) return {};
  return {{.values = state}};
}

template <class Rule>
void check_steps(const Rule& rule, DType grad_dtype, DType copy_dtype, int64_t n) {
  TestStream s(3);
  // Not 0: where decay and gradient nearly cancel, Adagrad's first root would be of their rounding.
  Values state(static_cast<size_t>(n), 1.0);
  RuleArgs a{.master = random_tensor({n}, DType::kF32, 1, s.stream),
             .states = states_of(rule.states() != 0 ? tensor_of(state, {n}, DType::kF32, s.stream)
                                                    : Tensor{}),
             .copy = Tensor::empty({n}, copy_dtype, s.stream)};
  Values w = values_of(a.master);
  for (int step = 1; step <= 4; ++step) {
    a.grad = random_tensor({n}, grad_dtype, 100 + static_cast<uint64_t>(step), s.stream);
    const Values grad = values_of(a.grad);
    const StepInputs in = inputs_of(step);
    for (size_t i = 0; i < w.size(); ++i) {
      reference_element(rule, in, grad[i] * 0.25, w[i], state[i]);
    }
    rule_update(s.stream, a, rule, testing::scalars_of(s.stream, in, {.grad_scale = 0.25F}));
  }
  INFO(name_of(grad_dtype) << " to " << name_of(copy_dtype) << " n " << n);
  REQUIRE(error_of(a.master, w) < 1e-6);
  if (rule.states() != 0) REQUIRE(error_of(a.states[0].values, state) < 1e-6);
  REQUIRE(same_bits(a.copy, tensor_of(values_of(a.master), {n}, copy_dtype, s.stream)));
}

template <class Rule>
void check_rule(const Rule& rule) {
  for (const DType grad : float_dtypes()) {
    for (const DType copy : float_dtypes()) {
      for (const int64_t n : {1, 3, 4, 33, 1025, 2049}) check_steps(rule, grad, copy, n);
    }
  }
}

TEST_CASE("Lion follows its formula in every gradient and copy dtype", "[kernels][device]") {
  check_rule(LionRule{.weight_decay = 0.1});
}

TEST_CASE("Adagrad follows its formula in every gradient and copy dtype", "[kernels][device]") {
  check_rule(AdagradRule{});
  check_rule(AdagradRule{.weight_decay = 0.1F});
}

TEST_CASE("SGD follows its formula in every gradient and copy dtype", "[kernels][device]") {
  check_rule(SgdRule{.weight_decay = 0.1F});
  check_rule(SgdRule{.momentum = 0.9F, .rest = 0.9F, .weight_decay = 0.1F});
  check_rule(SgdRule{.momentum = 0.9F, .nesterov = true});
}

TEST_CASE("a step by a rule leaves everything as it is where the scalars say skip",
          "[kernels][device]") {
  TestStream s;
  const RuleArgs a{.master = random_tensor({1027}, DType::kF32, 1, s.stream),
                   .grad = tensor_of(Values(1027, std::nan("")), {1027}, DType::kF16, s.stream),
                   .states = states_of(random_tensor({1027}, DType::kF32, 2, s.stream)),
                   .copy = random_tensor({1027}, DType::kBF16, 3, s.stream)};
  const auto all = [&] {
    return std::vector{bytes_of(a.master), bytes_of(a.states[0].values), bytes_of(a.copy)};
  };
  const auto before = all();
  const StepScalars skip = testing::scalars_of(s.stream, inputs_of(2), {.skip = 1});
  rule_update(s.stream, a, LionRule{}, skip);
  rule_update(s.stream, a, AdagradRule{}, skip);
  rule_update(s.stream, a, SgdRule{.momentum = 0.9F}, skip);
  rule_update(s.stream, a, RmspropRule{}, skip);
  CHECK(all() == before);
  rule_update(s.stream, a, LionRule{}, testing::scalars_of(s.stream, inputs_of(2)));
  CHECK(all() != before);
}

TEST_CASE("a step by a rule over an empty shard is a step", "[kernels][device]") {
  TestStream s;
  const Tensor none = Tensor::zeros({0}, DType::kF32, s.stream);
  const StepScalars scalars = testing::scalars_of(s.stream, inputs_of(1));
  CHECK_NOTHROW(rule_update(s.stream,
                            {.master = none, .grad = none, .states = states_of(none), .copy = none},
                            LionRule{}, scalars));
  CHECK_NOTHROW(rule_update(s.stream, {.master = none, .grad = none}, SgdRule{}, scalars));
}

// Views that begin anywhere; the copy may be the gradient's memory, whose dtype it has.
TEST_CASE("a step by a rule on views is that on whole tensors", "[kernels][device]") {
  TestStream s;
  const StepScalars scalars = testing::scalars_of(s.stream, inputs_of(2));
  const LionRule rule{.weight_decay = 0.1};
  for (const DType dtype : float_dtypes()) {
    // These are where weights, state and gradient begin.
    for (const std::array<int64_t, 3>& at :
         {std::array<int64_t, 3>{0, 0, 0}, {1, 1, 1}, {0, 0, 2}, {4, 8, 4}, {0, 3, 0}}) {
      for (const int64_t n : {1, 4, 7, 33, 1023, 1024, 1025}) {
        const auto step = [&](const std::array<int64_t, 3>& begin) {
          const Values w = values_of(random_tensor({n}, DType::kF32, 1, s.stream));
          const Values state = values_of(random_tensor({n}, DType::kF32, 2, s.stream));
          const Values grad = values_of(random_tensor({n}, dtype, 3, s.stream));
          // The numbers from `begin` on, between sevens.
          const auto view = [&](const Values& values, int64_t from, DType of) {
            Values all(static_cast<size_t>(n + 12), 7.0);
            std::copy(values.begin(), values.end(), all.begin() + from);
            return tensor_of(all, {n + 12}, of, s.stream);
          };
          const std::array<Tensor, 3> whole{view(w, begin[0], DType::kF32),
                                            view(state, begin[1], DType::kF32),
                                            view(grad, begin[2], dtype)};
          const Tensor g = whole[2].narrow(begin[2], n);
          rule_update(s.stream,
                      {.master = whole[0].narrow(begin[0], n),
                       .grad = g,
                       .states = states_of(whole[1].narrow(begin[1], n)),
                       .copy = g},
                      rule, scalars);
          std::vector<Values> results;
          for (size_t i = 0; i < whole.size(); ++i) {
            Values all = values_of(whole[i]);
            const auto first = all.begin() + begin[i];
            results.emplace_back(first, first + n);
            all.erase(first, first + n);
            CHECK(all == Values(12, 7.0));
          }
          return results;
        };
        INFO(name_of(dtype) << " n " << n << " views at " << at[0] << at[1] << at[2]);
        REQUIRE(step(at) == step({0, 0, 0}));
      }
    }
  }
}

// 0.9 (1 - 0.99) 0.1 and (1 - 0.9) 0.009 are equal: only the rounding of 1 - beta tells a sign.
TEST_CASE("where Lion's momentum and gradient cancel, fp32 decides on every device",
          "[kernels][device]") {
  TestStream s;
  const RuleArgs first{.master = tensor_of({0}, {1}, DType::kF32, s.stream),
                       .grad = tensor_of({0.1}, {1}, DType::kF32, s.stream),
                       .states = states_of(tensor_of({0}, {1}, DType::kF32, s.stream))};
  RuleArgs second = first;
  second.grad = tensor_of({-0.009}, {1}, DType::kF32, s.stream);
  const StepScalars scalars =
      testing::scalars_of(s.stream, {.lr = 0.5, .beta1 = 0.9, .beta2 = 0.99});
  rule_update(s.stream, first, LionRule{}, scalars);
  CHECK(values_of(first.master) == Values{-0.5});
  rule_update(s.stream, second, LionRule{}, scalars);
  CHECK(values_of(first.master) == Values{0});
}

// torch.sign is 0 at both zeros, and at what is no number.
TEST_CASE("Lion leaves a weight where its blend is zero, in every lane", "[kernels][device]") {
  TestStream s;
  const Values blends{0.0, -0.0, std::nan(""), 2.0, -2.0, 1e-40, -1e-40};
  const Values signs{0, 0, 0, 1, -1, 1, -1};
  for (const int64_t n : {1, 7, 33, 1031}) {
    const auto repeated = [n](const Values& values) {
      Values out;
      for (size_t i = 0; i < static_cast<size_t>(n); ++i) out.push_back(values[i % 7]);
      return out;
    };
    const Tensor momentum = tensor_of(repeated(Values(7, 0.0)), {n}, DType::kF32, s.stream);
    const RuleArgs a{.master = tensor_of(repeated(Values(7, 1.0)), {n}, DType::kF32, s.stream),
                     .grad = tensor_of(repeated(blends), {n}, DType::kF32, s.stream),
                     .states = states_of(momentum)};
    // beta1 of 0 makes the blend the gradient itself.
    const StepInputs in{.lr = 0.25, .beta1 = 0, .beta2 = 0.5};
    rule_update(s.stream, a, LionRule{.weight_decay = 0.5}, testing::scalars_of(s.stream, in));
    const Values weights = values_of(a.master), state = values_of(momentum);
    for (size_t i = 0; i < weights.size(); ++i) {
      CAPTURE(n, i);
      REQUIRE(weights[i] == 0.875 - 0.25 * signs[i % 7]);
      REQUIRE(std::isnan(state[i]) == (i % 7 == 2));
    }
  }
}

// ---- masters of fewer bits

// A step from the same state twice: masters of `dtype`, and what they are by definition, fp32
// numbers that a step by itself changes.
struct NarrowStep {
  RuleArgs narrow, wide;
};
template <class Rule>
NarrowStep narrow_step(TestStream& s, const Rule& rule, DType dtype, DType grad, int64_t n,
                       const std::optional<WeightNoise>& noise) {
  const Tensor gradients = random_tensor({n}, grad, 7, s.stream);
  const auto args = [&](DType master, DType copy) {
    RuleArgs a{.master = tensor_of(values_of(random_tensor({n}, dtype, 1, s.stream)), {n}, master,
                                   s.stream),
               .grad = gradients,
               .copy = Tensor::empty({n}, copy, s.stream)};
    for (int j = 0; j < rule.states(); ++j) {
      a.states.push_back({.values = tensor_of(Values(static_cast<size_t>(n), 0.25 * (j + 1)), {n},
                                              DType::kF32, s.stream)});
    }
    return a;
  };
  NarrowStep steps{.narrow = args(dtype, DType::kF32), .wide = args(DType::kF32, dtype)};
  steps.narrow.noise = noise;
  const StepScalars scalars = testing::scalars_of(s.stream, inputs_of(3), {.grad_scale = 0.25F});
  rule_update(s.stream, steps.narrow, rule, scalars);
  rule_update(s.stream, steps.wide, rule, scalars);
  return steps;
}

template <class Rule>
void check_narrow(const Rule& rule) {
  TestStream s(3);
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const DType grad : float_dtypes()) {
      for (const int64_t n : {1, 3, 33, 2049, 4100}) {
        CAPTURE(name_of(dtype), name_of(grad), n);
        const auto [narrow, wide] = narrow_step(s, rule, dtype, grad, n, std::nullopt);
        REQUIRE(same_bits(narrow.master, wide.copy));
        REQUIRE(values_of(narrow.copy) == values_of(narrow.master));
        for (size_t j = 0; j < narrow.states.size(); ++j) {
          REQUIRE(same_bits(narrow.states[j].values, wide.states[j].values));
        }
      }
    }
  }
}

TEST_CASE("masters of fewer bits are fp32 for a step, and rounded after it", "[kernels][device]") {
  check_narrow(AdamStateRule{.adam = {.weight_decay = 0.1F}});
  check_narrow(LionRule{.weight_decay = 0.1});
  check_narrow(AdagradRule{.weight_decay = 0.1F});
  check_narrow(SgdRule{.weight_decay = 0.1F});
  check_narrow(RmspropRule{.momentum = 0.5F, .centered = true});
}

TEST_CASE("masters in bf16 are rounded at random by their own numbers alone", "[kernels][device]") {
  TestStream s(3);
  constexpr int64_t kNumel = 5000;
  const WeightNoise noise{.key = 0x123456789abcdefULL, .first = 41};
  const LionRule rule{.weight_decay = 0.1};
  const auto [narrow, wide] = narrow_step(s, rule, DType::kBF16, DType::kF32, kNumel, noise);
  const Values exact = values_of(wide.master), rounded = values_of(narrow.master);
  const uint32_t salt = weight_salt(noise.key, 3);
  int differs = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const uint32_t word =
        weight_noise(salt, static_cast<uint32_t>(noise.first) + static_cast<uint32_t>(i));
    const auto bits = bf16_bits(static_cast<float>(exact[i]), word);
    REQUIRE(static_cast<float>(rounded[i]) ==
            std::bit_cast<float>(static_cast<uint32_t>(bits) << 16));
    differs += rounded[i] == values_of(wide.copy)[i] ? 0 : 1;
    if (i >= 99) break;
  }
  CHECK(differs > 10);
  CHECK(differs < 60);
  CHECK(values_of(narrow.copy) == rounded);
  // Cut anywhere, it is the same.
  const RuleArgs again{
      .master = tensor_of(values_of(random_tensor({kNumel}, DType::kBF16, 1, s.stream)), {kNumel},
                          DType::kBF16, s.stream),
      .grad = random_tensor({kNumel}, DType::kF32, 7, s.stream),
      .states = states_of(tensor_of(Values(kNumel, 0.25), {kNumel}, DType::kF32, s.stream))};
  const StepScalars scalars = testing::scalars_of(s.stream, inputs_of(3), {.grad_scale = 0.25F});
  int64_t begin = 0;
  for (const int64_t end : {int64_t{1}, int64_t{34}, int64_t{2500}, kNumel}) {
    const int64_t n = end - begin;
    rule_update(s.stream,
                {.master = again.master.narrow(begin, n),
                 .grad = again.grad.narrow(begin, n),
                 .states = states_of(again.states[0].values.narrow(begin, n)),
                 .noise = WeightNoise{.key = noise.key, .first = noise.first + begin}},
                rule, scalars);
    begin = end;
  }
  CHECK(same_bits(again.master, narrow.master));
}

TEST_CASE("random rounding of masters is unbiased, over elements and over steps", "[kernels]") {
  constexpr int kCount = 1 << 16;
  const double kUlp = 1.0 / 128;  // of bf16 from 1 to 2
  for (const double share : {0.001, 0.25, 0.5, 0.9}) {
    const auto value = static_cast<float>(1 + share * kUlp);
    const double deviation = std::sqrt(share * (1 - share) / kCount);
    const auto up = [&](uint32_t noise) { return bf16_bits(value, noise) == 0x3f81 ? 1 : 0; };
    const uint32_t salt = weight_salt(7, 1);
    int elements = 0, steps = 0, both = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
      REQUIRE((bf16_bits(value, weight_noise(salt, i)) & 0xfffe) == 0x3f80);
      elements += up(weight_noise(salt, i));
      steps += up(weight_noise(weight_salt(7, i), 5));
      both += up(weight_noise(salt, i)) * up(weight_noise(salt, i + 1));
    }
    CAPTURE(share);
    CHECK(std::abs(static_cast<double>(elements) / kCount - share) < 4.5 * deviation + 0x1p-16);
    CHECK(std::abs(static_cast<double>(steps) / kCount - share) < 4.5 * deviation + 0x1p-16);
    const double pair = share * share;
    CHECK(std::abs(static_cast<double>(both) / kCount - pair) <
          6 * std::sqrt(pair / kCount) + 0x1p-16);
  }
}

// What the rounding is for: steps of 1/16 of the last bit, of which nearest makes none.
TEST_CASE("steps of less than half the last bit are lost to nearest, and kept at random",
          "[kernels][device]") {
  TestStream s;
  constexpr int64_t kNumel = 4096;
  constexpr int kSteps = 64;
  for (const bool random : {false, true}) {
    RuleArgs a{
        .master = tensor_of(Values(kNumel, 1.25), {kNumel}, DType::kBF16, s.stream),
        .grad = tensor_of(Values(kNumel, -1.0 / (128 * 16)), {kNumel}, DType::kF32, s.stream)};
    if (random) a.noise = WeightNoise{.key = 99};
    for (int step = 1; step <= kSteps; ++step) {
      rule_update(s.stream, a, SgdRule{}, testing::scalars_of(s.stream, {.lr = 1, .step = step}));
    }
    double mean = 0;
    for (const double w : values_of(a.master)) mean += w / kNumel;
    // To 5 standard deviations of the mean.
    CHECK(std::abs(mean - (random ? 1.25 + kSteps / (128.0 * 16) : 1.25)) <
          (random ? 1.2e-3 : 1e-9));
  }
}

}  // namespace
}  // namespace ds::kernels
