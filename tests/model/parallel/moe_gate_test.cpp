// Mixture-of-experts gating, by tests/golden/moe_gate.txt and by properties.
#include "model/parallel/moe_gate.h"

#include "core/status/error.h"
#include "tests/model/parallel/gate_commands.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

std::string answer(const std::string& command) {
  return ds::testing::gate_answer(command, [](const ds::testing::GateCommand& asked) {
    return gate(asked.logits, asked.tokens(), asked.experts, asked.options);
  });
}

}  // namespace

TEST_CASE("gates follow the golden files", "[model]") {
  ds::testing::run_golden("moe_gate.txt", answer);
  ds::testing::run_golden("moe_gate_conformance.txt", answer);
}

TEST_CASE("what is encoded decodes to the weighted sum of its experts", "[model]") {
  const Rng rng(1, "moe");
  constexpr int64_t kTokens = 12, kExperts = 4, kWidth = 3;
  std::vector<float> logits(kTokens * kExperts), hidden(kTokens * kWidth);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = rng.normal(i);
  for (size_t i = 0; i < hidden.size(); ++i) hidden[i] = rng.normal(1000 + i);
  const Gate result =
      gate(logits, kTokens, kExperts, {.rule = GateRule::kTop2, .drop = TokenDrop::kNever});
  // Experts that do nothing: weights of the two choices sum to 1.
  const std::vector<float> out =
      decode_tokens(result, encode_tokens(result, hidden, kWidth), kWidth);
  for (size_t i = 0; i < hidden.size(); ++i) CHECK(out[i] == Approx(hidden[i]).margin(1e-5));
  CHECK_THROWS_AS(encode_tokens(result, hidden, 2), InternalError);
  CHECK_THROWS_AS(decode_tokens(result, hidden, kWidth), InternalError);
}

TEST_CASE("no expert gets more than its capacity and no slot is used twice", "[model]") {
  const Rng rng(2, "moe");
  std::vector<float> logits(512);
  for (size_t i = 0; i < logits.size(); ++i) logits[i] = rng.normal(i) * 2;
  for (const GateRule rule : {GateRule::kTop1, GateRule::kTop2, GateRule::kTopK}) {
    const Gate result = gate(logits, 64, 8,
                             {.rule = rule,
                              .k = 3,
                              .capacity_factor = 0.5,
                              .min_capacity = 1,
                              .token_selection = &rng,
                              .second_expert = &rng});
    std::vector<int> used(static_cast<size_t>(8 * result.capacity), 0);
    for (size_t i = 0; i < result.expert.size(); ++i) {
      if (result.expert[i] < 0) continue;
      REQUIRE(result.slot[i] < result.capacity);
      CHECK(++used[static_cast<size_t>(result.expert[i] * result.capacity + result.slot[i])] == 1);
    }
  }
}

TEST_CASE("a gate refuses what it cannot route", "[model]") {
  const std::vector<float> logits(6);
  CHECK_THROWS_AS(gate(logits, 2, 3, {.rule = GateRule::kTopK, .k = 4}), ConfigError);
  CHECK_THROWS_AS(gate(logits, 2, 3, {.min_capacity = 4}), ConfigError);
  CHECK_THROWS_AS(gate(logits, 2, 4, {.min_capacity = 0}), InternalError);
  CHECK(expert_capacity(10, 1, 1.1, 4) == 11);
  CHECK(expert_capacity(4, 8, 1.0, 4) == 4);
}
