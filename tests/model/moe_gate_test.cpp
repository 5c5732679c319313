// Mixture-of-experts gating, by tests/golden/moe_gate.txt and by properties.
#include "model/parallel/moe_gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/status/error.h"
#include "tests/support/arguments.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;
using ds::testing::Arguments;

namespace {

std::string answer(const std::string& command) {
  const Arguments args(command);
  const std::vector<float> logits = args.list<float>("logits");
  const int64_t experts = args.integer("experts");
  const std::vector<uint8_t> used = args.list<uint8_t>("used");
  try {
    const Gate result =
        gate(logits, static_cast<int64_t>(logits.size()) / experts, experts,
             {.rule = args.verb == "top1"   ? GateRule::kTop1
                      : args.verb == "top2" ? GateRule::kTop2
                                            : GateRule::kTopK,
              .k = static_cast<int>(args.integer("k", 1)),
              .capacity_factor = args.number("factor", 1.0),
              .min_capacity = args.integer("min", 0),
              .drop = args.has("keep_all") ? TokenDrop::kNever : TokenDrop::kOverCapacity,
              .policy = args.has("position") ? DropPolicy::kPosition : DropPolicy::kProbability,
              .used_tokens = used});
    std::string out = fmt::format("loss {:.4f}, capacity {}, counts {}\n", result.aux_loss,
                                  result.capacity, fmt::join(result.expert_counts, " "));
    for (int64_t t = 0; t < result.tokens; ++t) {
      out += fmt::format("token {}:", t);
      for (int j = 0; j < result.k; ++j) {
        const size_t at = static_cast<size_t>(j * result.tokens + t);
        out += result.expert[at] < 0 ? " dropped"
                                     : fmt::format(" expert {} slot {} x {:.3f}", result.expert[at],
                                                   result.slot[at], result.weight[at]);
      }
      out += '\n';
    }
    return out;
  } catch (const ConfigError& error) {
    return fmt::format("error: {}\n", error.what());
  }
}

}  // namespace

TEST_CASE("gates follow the golden file", "[model]") {
  ds::testing::run_golden("moe_gate.txt", answer);
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
  std::vector<float> logits(64 * 8);
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
