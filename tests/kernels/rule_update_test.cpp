// Lion, Adagrad and SGD over shards, against their formulas in fp64.
#include "kernels/step/rule_update.h"

#include <array>
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
  w = w * (1 - in.lr * rule.weight_decay) - std::copysign(in.lr, c);
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
    // Where weights, state, gradient begin.
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

}  // namespace
}  // namespace ds::kernels
