// Routes of transformers' own routers (tests/golden/moe), with their gradients.
#include <rapidjson/document.h>

#include <fstream>
#include <map>
#include <sstream>

#include "kernels/moe/route.h"
#include "kernels/moe/router_loss.h"
#include "tests/kernels/moe/moe_reference.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"
#include "tests/support/sums.h"

namespace ds::kernels {
namespace {

using namespace reference;

Values list_of(const rapidjson::Value& value) {
  Values out;
  for (const auto& one : value.GetArray()) out.push_back(one.GetDouble());
  return out;
}

RouteRule rule_of(const rapidjson::Value& one) {
  const rapidjson::Value& rule = one["rule"];
  const auto number = [&](const char* key, double absent) {
    return rule.HasMember(key) ? rule[key].GetDouble() : absent;
  };
  const std::string sum = rule["weight_sum"].GetString();
  return {.experts = one["experts"].GetInt64(),
          .choices = one["choices"].GetInt64(),
          .score = rule.HasMember("sigmoid") ? RouterScore::kSigmoid : RouterScore::kSoftmax,
          .groups = static_cast<int64_t>(number("n_group", 1)),
          .limited_groups = static_cast<int64_t>(number("topk_group", 1)),
          .group_score = GroupScore::kSumOfTwo,
          .weight_sum = sum == "as is"     ? WeightSum::kAsIs
                        : sum == "epsilon" ? WeightSum::kOneWithEpsilon
                                           : WeightSum::kOne,
          .scale = static_cast<float>(number("routed_scaling_factor", 1))};
}

// Experts of a token with their weights, in no order: transformers gives them in one of its own.
std::map<int32_t, double> pairs_of(const Ints& experts, const Values& weights, int64_t token,
                                   int64_t k) {
  std::map<int32_t, double> pairs;
  for (int64_t i = token * k; i < (token + 1) * k; ++i) {
    pairs[experts[static_cast<size_t>(i)]] = weights[static_cast<size_t>(i)];
  }
  return pairs;
}

void check_balance(Stream& stream, const rapidjson::Value& one, const Tensor& scores,
                   const Tensor& experts) {
  const RouteRule rule = rule_of(one);
  Tensor counts = room_for_ints(rule.experts, stream);
  count_choices(stream, experts, {.choices = rule.choices, .counted = rule.choices}, counts);
  // Which transformers does not divide by k.
  const BalanceLoss args{.scores = scores, .counts = counts, .choices = 1};
  Tensor loss = Tensor::empty({1}, DType::kF64, stream);
  balance_loss(stream, args, loss);
  CHECK(testing::number_in(stream, loss) == Approx(one["loss"].GetDouble()).epsilon(1e-6));
  Tensor dscores = Tensor::empty(scores.shape(), DType::kF32, stream);
  balance_loss_backward(stream, args, {}, dscores);
  const Tensor none = tensor_of(Values(static_cast<size_t>(experts.numel()), 0.0),
                                {experts.numel()}, DType::kF32, stream);
  const Tensor dlogits = Tensor::empty(scores.shape(), DType::kF32, stream);
  route_backward(stream, {.rule = rule,
                          .scores = scores,
                          .experts = experts,
                          .dweights = none,
                          .dscores = dscores,
                          .dlogits = dlogits});
  CHECK(error_of(dlogits, list_of(one["loss_gradient"])) < 1e-5);
}

void check_case(Stream& stream, const rapidjson::Value& one) {
  CAPTURE(one["name"].GetString());
  const RouteRule rule = rule_of(one);
  const Values given = list_of(one["logits"]), bias = list_of(one["bias"]);
  const int64_t k = rule.choices, tokens = static_cast<int64_t>(given.size()) / rule.experts;
  const Tensor experts = room_for_ints(tokens * k, stream);
  const Tensor weights = Tensor::empty({tokens, k}, DType::kF32, stream);
  const Tensor scores = Tensor::empty({tokens, rule.experts}, DType::kF32, stream);
  route(stream,
        {.rule = rule,
         .logits = tensor_of(given, {tokens, rule.experts}, DType::kF32, stream),
         .bias = bias.empty() ? Tensor() : tensor_of(bias, {rule.experts}, DType::kF32, stream),
         .experts = experts,
         .weights = weights,
         .scores = scores});
  Ints chosen;
  for (const double expert : list_of(one["chosen"])) chosen.push_back(static_cast<int32_t>(expert));
  const Ints got = ints_of(experts);
  const Values factors = list_of(one["factors"]);
  Values dweights;
  for (int64_t n = 0; n < tokens; ++n) {
    const auto mine = pairs_of(got, values_of(weights), n, k);
    const auto theirs = pairs_of(chosen, list_of(one["weights"]), n, k);
    REQUIRE(mine.size() == theirs.size());
    for (const auto& [expert, weight] : theirs) {
      REQUIRE(mine.contains(expert));
      CHECK(mine.at(expert) == Approx(weight).epsilon(1e-6));
    }
    for (int64_t j = 0; j < k; ++j) {
      dweights.push_back(
          factors[static_cast<size_t>(n * rule.experts + got[static_cast<size_t>(n * k + j)])]);
    }
  }
  const Tensor dlogits = Tensor::empty({tokens, rule.experts}, DType::kF32, stream);
  route_backward(stream, {.rule = rule,
                          .scores = scores,
                          .experts = experts,
                          .dweights = tensor_of(dweights, {tokens, k}, DType::kF32, stream),
                          .dlogits = dlogits});
  CHECK(error_of(dlogits, list_of(one["gradient"])) < 1e-5);
  if (one.HasMember("loss")) check_balance(stream, one, scores, experts);
}

TEST_CASE("routes and their gradients are those of transformers", "[kernels][moe][device]") {
  std::ifstream in(testing::source_directory() + "/tests/golden/moe/routers.json");
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document cases;
  cases.Parse(text.str().c_str());
  REQUIRE(cases.IsArray());
  REQUIRE(cases.Size() == 5);
  TestStream s;
  for (const auto& one : cases.GetArray()) check_case(s.stream, one);
}

}  // namespace
}  // namespace ds::kernels
