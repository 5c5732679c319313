// Routing against the fp64 reference: choices, weights, scores and the gradients of both.
#include "kernels/moe/route.h"

#include <functional>
#include <limits>

#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"

namespace ds::kernels {
namespace {

using namespace reference;

struct Case {
  std::string name;
  RouteRule rule;
  bool has_bias = false;
};

// Every rule for a number of experts, at several k.
std::vector<Case> cases_of(int64_t experts) {
  std::vector<Case> cases;
  const auto add = [&](std::string name, RouteRule rule, bool has_bias = false) {
    for (const int64_t k : {int64_t{1}, std::min<int64_t>(2, experts),
                            std::min<int64_t>(8, experts), std::min(kMostChoices, experts)}) {
      if (k > experts / rule.groups * rule.limited_groups) continue;
      rule.experts = experts;
      rule.choices = k;
      cases.push_back({fmt::format("{}, k {} of {}", name, k, experts), rule, has_bias});
    }
  };
  add("softmax", {});
  add("softmax to one", {.weight_sum = WeightSum::kOne});
  add("softmax, scaled", {.weight_sum = WeightSum::kOneClamped, .scale = 2.5F});
  add("softmax, biased", {}, true);
  add("sigmoid", {.score = RouterScore::kSigmoid, .weight_sum = WeightSum::kOneWithEpsilon});
  add("sigmoid, biased", {.score = RouterScore::kSigmoid}, true);
  if (experts % 8 == 0) {
    add("largest of groups", {.groups = 4, .limited_groups = 2});
    add("groups of one", {.groups = experts, .limited_groups = experts});
    add("two of groups, biased",
        {.score = RouterScore::kSigmoid,
         .groups = 4,
         .limited_groups = 3,
         .group_score = GroupScore::kSumOfTwo,
         .weight_sum = WeightSum::kOneWithEpsilon,
         .scale = 2.5F},
        true);
    add("two of groups", {.groups = 2, .limited_groups = 1, .group_score = GroupScore::kSumOfTwo});
  }
  return cases;
}

struct Results {
  Tensor experts, weights, scores;
};

Results route_of(Stream& stream, const RouteRule& rule, const Tensor& logits, const Tensor& bias,
                 const Tensor& used = {}) {
  const int64_t tokens = logits.numel() / rule.experts;
  const Results to{.experts = room_for_ints(tokens * rule.choices, stream),
                   .weights = Tensor::empty({tokens, rule.choices}, DType::kF32, stream),
                   .scores = Tensor::empty({tokens, rule.experts}, DType::kF32, stream)};
  route(stream, {.rule = rule,
                 .logits = logits,
                 .bias = bias,
                 .used = used,
                 .experts = to.experts,
                 .weights = to.weights,
                 .scores = to.scores});
  return to;
}

TEST_CASE("tokens are routed as the reference routes them", "[kernels][moe][device]") {
  TestStream s;
  for (const int64_t experts : {1, 2, 8, 64, 257}) {
    for (const Case& one : cases_of(experts)) {
      for (const int64_t tokens : {0, 1, 19}) {
        INFO(one.name << ", " << tokens << " tokens");
        const Tensor logits = random_tensor({tokens, experts}, DType::kF32, 11, s.stream, 2);
        const Tensor bias =
            one.has_bias ? random_tensor({experts}, DType::kF32, 12, s.stream, 0.1) : Tensor();
        const Results got = route_of(s.stream, one.rule, logits, bias);
        const Values x = values_of(logits), b = one.has_bias ? values_of(bias) : Values{};
        Ints expected;
        Values weights, scores;
        for (int64_t n = 0; n < tokens; ++n) {
          const Values row = row_of(x, n, experts), own = router_scores(one.rule, row);
          const Ints chosen = router_choice(one.rule, row, b);
          expected.insert(expected.end(), chosen.begin(), chosen.end());
          const Values weighed = router_weights(one.rule, own, chosen);
          weights.insert(weights.end(), weighed.begin(), weighed.end());
          scores.insert(scores.end(), own.begin(), own.end());
        }
        REQUIRE(ints_of(got.experts) == expected);
        REQUIRE(error_of(got.weights, weights) < 2e-6);
        REQUIRE(error_of(got.scores, scores) < 2e-6);
      }
    }
  }
}

TEST_CASE("routing has the same bits for any number of threads, with and without scores",
          "[kernels][moe]") {
  const RouteRule rule{.experts = 64, .choices = 6, .weight_sum = WeightSum::kOne};
  TestStream one(1);
  const Tensor logits = random_tensor({333, 64}, DType::kF32, 3, one.stream);
  const Results first = route_of(one.stream, rule, logits, {});
  for (const int threads : {2, 4}) {
    TestStream s(threads);
    const Tensor experts = room_for_ints(1998, s.stream);
    const Tensor weights = Tensor::empty({333, 6}, DType::kF32, s.stream);
    route(s.stream, {.rule = rule, .logits = logits, .experts = experts, .weights = weights});
    CHECK(same_bits(experts, first.experts));
    CHECK(same_bits(weights, first.weights));
  }
}

TEST_CASE("of equal ranks the lower expert is chosen, and NaN is the last",
          "[kernels][moe][device]") {
  TestStream s;
  constexpr double kNone = -std::numeric_limits<double>::infinity();
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const auto chosen = [&](const Values& logits, RouteRule rule, const Values& bias = {}) {
    rule.experts = static_cast<int64_t>(logits.size());
    const Tensor x = tensor_of(logits, {1, rule.experts}, DType::kF32, s.stream);
    const Tensor b =
        bias.empty() ? Tensor() : tensor_of(bias, {rule.experts}, DType::kF32, s.stream);
    return ints_of(route_of(s.stream, rule, x, b).experts);
  };
  CHECK(chosen({1, 2, 2, 1, 2}, {.choices = 4}) == Ints{1, 2, 4, 0});
  CHECK(chosen({0.0, -0.0, 0.0}, {.choices = 3}) == Ints{0, 1, 2});
  CHECK(chosen({kNone, 3, kNone, kNone}, {.choices = 3}) == Ints{1, 0, 2});
  CHECK(chosen({kNaN, 3, kNone, 4}, {.choices = 4}) == Ints{3, 1, 0, 2});
  CHECK(chosen({kNaN, kNaN}, {.choices = 1}, {0, 0}) == Ints{0});
  CHECK(chosen({1, 5, 1, 5, 1, 5}, {.choices = 2, .groups = 3, .limited_groups = 1}) == Ints{1, 0});
  CHECK(chosen({9, 0, 6, 5, 0, 0},
               {.choices = 2, .groups = 3, .group_score = GroupScore::kLargest}) == Ints{0, 1});
  // The bias has a say in the choice alone.
  CHECK(chosen({1, 1, 1}, {.choices = 2}, {0, 0.5, 1}) == Ints{2, 1});
  const RouteRule rule{.experts = 3, .choices = 1};
  const Tensor x = tensor_of({0, 0, 0}, {1, 3}, DType::kF32, s.stream);
  const Tensor bias = tensor_of({0, 5, 0}, {3}, DType::kF32, s.stream);
  CHECK(values_of(route_of(s.stream, rule, x, bias).weights)[0] == Approx(1.0 / 3));
}

TEST_CASE("tokens that do not take part have no experts, but scores", "[kernels][moe][device]") {
  TestStream s;
  const RouteRule rule{.experts = 4, .choices = 2};
  const Tensor logits = random_tensor({3, 4}, DType::kF32, 1, s.stream);
  const Tensor used = testing::upload(std::vector<uint8_t>{1, 0, 1}, {3}, s.stream);
  const Results all = route_of(s.stream, rule, logits, {});
  const Results some = route_of(s.stream, rule, logits, {}, used);
  Ints experts = ints_of(all.experts);
  Values weights = values_of(all.weights);
  for (const size_t j : {size_t{2}, size_t{3}}) {
    experts[j] = -1;
    weights[j] = 0;
  }
  CHECK(ints_of(some.experts) == experts);
  CHECK(values_of(some.weights) == weights);
  CHECK(same_bits(some.scores, all.scores));
}

// What of a loss 3 * weights + scores, with factors of each, a logit's change does to it.
Values numeric_gradient(const RouteRule& rule, const Values& logits, const Ints& experts,
                        const std::function<double(const Values&, const Values&)>& loss) {
  Values gradient;
  for (size_t e = 0; e < logits.size(); ++e) {
    constexpr double kStep = 1e-5;
    const auto at = [&](double step) {
      Values moved = logits;
      moved[e] += step;
      const Values scores = router_scores(rule, moved);
      return loss(router_weights(rule, scores, experts), scores);
    };
    gradient.push_back((at(kStep) - at(-kStep)) / (2 * kStep));
  }
  return gradient;
}

TEST_CASE("gradients of weights and scores go to the logits", "[kernels][moe][device]") {
  TestStream s;
  for (const int64_t experts : {1, 2, 8, 64}) {
    for (const Case& one : cases_of(experts)) {
      const int64_t tokens = 5, k = one.rule.choices;
      INFO(one.name);
      const Tensor logits = random_tensor({tokens, experts}, DType::kF32, 21, s.stream);
      const Results of = route_of(s.stream, one.rule, logits, {});
      Ints experts_of = ints_of(of.experts);
      if (k > 1) experts_of[static_cast<size_t>(k)] = -1;  // a choice that was dropped since
      const Tensor kept = ints(experts_of, s.stream);
      Tensor weights = Tensor::empty({tokens, k}, DType::kF32, s.stream);
      route_weights(s.stream, one.rule, of.scores, kept, weights);
      const Tensor dweights = random_tensor({tokens, k}, DType::kF32, 22, s.stream);
      const Tensor dscores = random_tensor({tokens, experts}, DType::kF32, 23, s.stream);
      Tensor dlogits = tensor_of(Values(static_cast<size_t>(tokens * experts), 1.0),
                                 {tokens, experts}, DType::kF32, s.stream);
      const Values dw = values_of(dweights), ds = values_of(dscores);
      Values expected, all_weights;
      for (int64_t n = 0; n < tokens; ++n) {
        const Values x = row_of(values_of(logits), n, experts);
        const Ints chosen = row_of(experts_of, n, k);
        const Values g = numeric_gradient(
            one.rule, x, chosen, [&](const Values& of_weights, const Values& of_scores) {
              return dot(of_weights, row_of(dw, n, k)) + dot(of_scores, row_of(ds, n, experts));
            });
        for (const double slope : g) expected.push_back(slope + 1);
        const Values w = router_weights(one.rule, router_scores(one.rule, x), chosen);
        all_weights.insert(all_weights.end(), w.begin(), w.end());
      }
      REQUIRE(error_of(weights, all_weights) < 2e-6);
      RouteBackwardArgs args{.rule = one.rule,
                             .scores = of.scores,
                             .experts = kept,
                             .dweights = dweights,
                             .dscores = dscores,
                             .dlogits = dlogits,
                             .write = Write::kAccumulate};
      route_backward(s.stream, args);
      REQUIRE(error_of(dlogits, expected) < 1e-5);
      args.write = Write::kOverwrite;
      route_backward(s.stream, args);
      for (double& slope : expected) slope -= 1;
      REQUIRE(values_of(dlogits)[0] == Approx(expected[0]).margin(1e-5));
      args.dscores = {};
      args.dweights = tensor_of(Values(dw.size(), 0.0), {tokens, k}, DType::kF32, s.stream);
      route_backward(s.stream, args);
      REQUIRE(values_of(dlogits) == Values(expected.size(), 0.0));
    }
  }
}

TEST_CASE("a sum below the epsilon does not follow the scores", "[kernels][moe][device]") {
  TestStream s;
  const RouteRule rule{.experts = 3, .choices = 1, .weight_sum = WeightSum::kOneClamped};
  const Tensor scores = tensor_of({1e-9, 0.5, 0.5}, {1, 3}, DType::kF32, s.stream);
  const Tensor experts = ints({0}, s.stream);
  Tensor weights = Tensor::empty({1, 1}, DType::kF32, s.stream);
  route_weights(s.stream, rule, scores, experts, weights);
  CHECK(values_of(weights)[0] == Approx(1e-9 / 0x1p-23));
  Tensor dlogits = Tensor::empty({1, 3}, DType::kF32, s.stream);
  route_backward(s.stream, {.rule = rule,
                            .scores = scores,
                            .experts = experts,
                            .dweights = tensor_of({1}, {1}, DType::kF32, s.stream),
                            .dlogits = dlogits});
  CHECK(values_of(dlogits)[0] == Approx(1e-9 / 0x1p-23));
}

TEST_CASE("routers refuse rules and operands that do not fit", "[kernels][moe]") {
  TestStream s;
  const Tensor logits = random_tensor({4, 8}, DType::kF32, 1, s.stream);
  const auto refused = [&](const RouteRule& rule, const std::string& message) {
    const RouteArgs args{.rule = rule,
                         .logits = logits,
                         .experts = room_for_ints(4 * std::max<int64_t>(1, rule.choices), s.stream),
                         .weights = Tensor::empty({4, rule.choices}, DType::kF32, s.stream)};
    CHECK_THROWS_AS(route(s.stream, args), InternalError);
    CHECK_THROWS_WITH(route(s.stream, args), Catch::Contains(message));
  };
  refused({.experts = 0}, "route: 0 experts, expected 1 to 1024");
  refused({.experts = 1025}, "route: 1025 experts");
  refused({.experts = 8, .choices = 9}, "route: 9 choices of 8 experts, expected 1 to 8");
  refused({.experts = 8, .choices = 0}, "route: 0 choices");
  refused({.experts = 100, .choices = 33}, "route: 33 choices of 100 experts, expected 1 to 32");
  refused({.experts = 8, .groups = 3}, "route: 3 groups of 8 experts");
  refused({.experts = 8, .groups = 2, .limited_groups = 3}, "route: 3 limited groups");
  refused({.experts = 8, .choices = 3, .groups = 4}, "3 choices, but 1 limited groups have 2");
  refused({.experts = 8, .groups = 8, .group_score = GroupScore::kSumOfTwo}, "groups of 1 experts");
  refused({.experts = 4, .choices = 1}, "logits has shape [4, 8]");
  const RouteRule rule{.experts = 8, .choices = 2};
  RouteArgs args{.rule = rule,
                 .logits = logits,
                 .experts = room_for_ints(8, s.stream),
                 .weights = Tensor::empty({4, 2}, DType::kBF16, s.stream)};
  CHECK_THROWS_WITH(route(s.stream, args), Catch::Contains("weights is bf16, expected fp32"));
  args.weights = Tensor::empty({4, 2}, DType::kF32, s.stream);
  args.bias = args.weights;
  CHECK_NOTHROW(route(s.stream, args));
  args.bias = Tensor::empty({4}, DType::kF32, s.stream);
  CHECK_THROWS_WITH(route(s.stream, args), Catch::Contains("bias has shape [4]"));
  args.bias = {};
  args.used = Tensor::empty({3}, DType::kU8, s.stream);
  CHECK_THROWS_WITH(route(s.stream, args), Catch::Contains("used has shape [3]"));
  CHECK_THROWS_WITH(route_weights(s.stream, rule, args.weights, args.experts, args.weights),
                    Catch::Contains("route_weights: scores has shape [4, 2]"));
  CHECK_THROWS_WITH(route_backward(s.stream, {.rule = rule,
                                              .scores = logits,
                                              .experts = args.experts,
                                              .dweights = logits,
                                              .dlogits = logits}),
                    Catch::Contains("route_backward: dweights has shape [4, 8]"));
}

}  // namespace
}  // namespace ds::kernels
