// Which tokens masked language modelling chooses, and what it puts in their place.
#include "data/masked_tokens.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/status/error.h"
#include "core/values/index.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Ints = std::vector<int32_t>;

constexpr int32_t kMask = 99;
const Rng kRng(7, "masked_lm");

struct Masked {
  Ints tokens, targets;
};

Masked masked(const MaskingRules& rules, Ints tokens, const Rng& rng = kRng) {
  Masked out{.tokens = std::move(tokens), .targets = {}};
  out.targets.assign(out.tokens.size(), -7);
  mask_tokens(rules, rng, out.tokens, out.targets);
  return out;
}

Ints counting(size_t count) {
  Ints tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<int32_t>(i % 50));
  return tokens;
}

TEST_CASE("a share of the tokens is chosen, and a target is what stood there", "[data]") {
  const MaskingRules rules{.mask = kMask, .vocabulary = 100};
  const Ints before = counting(100000);
  const Masked after = masked(rules, before);
  double chosen = 0, hidden = 0, same = 0;
  for (size_t t = 0; t < before.size(); ++t) {
    if (after.targets[t] < 0) {
      REQUIRE(after.targets[t] == -1);
      REQUIRE(after.tokens[t] == before[t]);
      continue;
    }
    REQUIRE(after.targets[t] == before[t]);
    ++chosen;
    hidden += after.tokens[t] == kMask ? 1 : 0;
    same += after.tokens[t] == before[t] ? 1 : 0;
  }
  // Five standard deviations. Of the random ones, one of a hundred is the mask or the same.
  const auto near = [](double count, double of, double share) {
    return std::abs(count - of * share) < 5 * std::sqrt(of * share * (1 - share));
  };
  CHECK(near(chosen, 100000, 0.15));
  CHECK(near(hidden, chosen, 0.8 + 0.1 / 100));
  CHECK(near(same, chosen, 0.1 + 0.1 / 100));
}

TEST_CASE("what stands for a chosen token at random is any of the vocabulary", "[data]") {
  const MaskingRules rules{.share = 1, .masked = 0, .random = 1, .mask = kMask, .vocabulary = 5};
  std::map<int32_t, int> seen;
  for (const int32_t token : masked(rules, Ints(10000, 3)).tokens) ++seen[token];
  REQUIRE(seen.size() == 5);
  CHECK(seen.begin()->first == 0);
  CHECK(seen.rbegin()->first == 4);
  for (const auto& [token, times] : seen) CHECK(std::abs(times - 2000) < 200);
}

TEST_CASE("all or none of the chosen tokens are replaced if so is said", "[data]") {
  const MaskingRules all{.share = 1, .masked = 1, .random = 0, .mask = kMask, .vocabulary = 100};
  CHECK(masked(all, {1, 2, 3}).tokens == Ints{kMask, kMask, kMask});
  CHECK(masked(all, {1, 2, 3}).targets == Ints{1, 2, 3});
  const MaskingRules none{.share = 1, .masked = 0, .random = 0, .mask = kMask, .vocabulary = 100};
  CHECK(masked(none, {1, 2, 3}).tokens == Ints{1, 2, 3});
  CHECK(masked(none, {1, 2, 3}).targets == Ints{1, 2, 3});
  CHECK(masked(none, {}).targets.empty());
}

TEST_CASE("choices follow from the numbers that are drawn, and a beginning has the same ones",
          "[data]") {
  const MaskingRules rules{.share = 0.5, .mask = kMask, .vocabulary = 100};
  const Masked whole = masked(rules, counting(200)), again = masked(rules, counting(200));
  CHECK(whole.tokens == again.tokens);
  CHECK(whole.targets == again.targets);
  const Masked beginning = masked(rules, counting(70));
  CHECK(std::ranges::equal(beginning.targets, std::span(whole.targets).first(70)));
  CHECK(masked(rules, counting(200), kRng.derive(1)).targets != whole.targets);
}

TEST_CASE("some tokens are never chosen", "[data]") {
  const MaskingRules rules{
      .share = 1, .masked = 1, .random = 0, .mask = kMask, .vocabulary = 100, .never = {0, 4}};
  CHECK(masked(rules, {0, 1, 4, 4, 2, 0}).targets == Ints{-1, 1, -1, -1, 2, -1});
}

// 1 is "a", 2 is " b", 3 is "c ", 4 is white space, 0 is special.
MaskingRules whole_words(double share) {
  MaskingRules rules{
      .share = share, .masked = 1, .random = 0, .mask = kMask, .vocabulary = 100, .never = {0}};
  rules.word_edges = {WordEdge::kNone, WordEdge::kNone, WordEdge::kBegins, WordEdge::kEnds,
                      WordEdge::kBoth};
  return rules;
}

TEST_CASE("the tokens of a word are chosen together", "[data]") {
  // The words: a a | b a a c | a | special | a a | space | a.
  const Ints tokens{1, 1, 2, 1, 1, 3, 1, 0, 1, 1, 4, 1};
  const std::vector<std::pair<size_t, size_t>> words{{0, 2},  {2, 6},   {6, 7},
                                                     {8, 10}, {10, 11}, {11, 12}};
  std::map<size_t, int> alone;  // times that a word was chosen and the next was not
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Ints targets = masked(whole_words(0.5), tokens, kRng.derive(seed)).targets;
    CHECK(targets[7] == -1);
    for (size_t w = 0; w < words.size(); ++w) {
      const auto [begin, end] = words[w];
      for (size_t t = begin; t < end; ++t) CHECK((targets[t] < 0) == (targets[begin] < 0));
      const size_t next = w + 1 < words.size() ? words[w + 1].first : 0;
      if (targets[begin] >= 0 && targets[next] < 0) ++alone[w];
    }
  }
  for (size_t w = 0; w < words.size(); ++w) CHECK(alone[w] > 50);
}

TEST_CASE("targets that do not fit are refused", "[data]") {
  Ints tokens{1, 2}, targets{1};
  CHECK_THROWS_AS(mask_tokens({}, kRng, tokens, targets), InternalError);
}

}  // namespace
}  // namespace ds
