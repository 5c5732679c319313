#include "data/masked_tokens.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

constexpr int32_t kNotChosen = -1;

bool has(WordEdge edges, WordEdge wanted) {
  return (static_cast<uint8_t>(edges) & static_cast<uint8_t>(wanted)) != 0;
}

// Whether a word begins at a token that follows another.
bool begins_word(const MaskingRules& rules, int32_t before, int32_t token) {
  if (rules.word_edges.empty()) return true;
  const auto edges = [&](int32_t id) { return nth(rules.word_edges, id); };
  return has(edges(token), WordEdge::kBegins) || has(edges(before), WordEdge::kEnds);
}

// Each token draws three numbers, whichever of them count.
constexpr uint64_t kDraws = 3, kChosen = 0, kPlace = 1, kToken = 2;

int32_t in_place_of(const MaskingRules& rules, const Rng& rng, size_t at, int32_t token) {
  const double drawn = rng.uniform(at * kDraws + kPlace);
  if (drawn < rules.masked) return rules.mask;
  if (drawn >= rules.masked + rules.random) return token;
  const uint64_t word = rng.bits(at * kDraws + kToken);
  return static_cast<int32_t>(word * static_cast<uint64_t>(rules.vocabulary) >> 32);
}

}  // namespace

void mask_tokens(const MaskingRules& rules, const Rng& rng, std::span<int32_t> tokens,
                 std::span<int32_t> targets) {
  DS_CHECK(targets.size() == tokens.size(), "masks: {} targets of {} tokens", targets.size(),
           tokens.size());
  bool chosen = false, may_go_on = false;
  int32_t before = 0;
  for (size_t t = 0; t < tokens.size(); ++t) {
    const int32_t token = tokens[t];
    targets[t] = kNotChosen;
    if (std::ranges::binary_search(rules.never, token)) {
      may_go_on = false;
      continue;
    }
    if (!may_go_on || begins_word(rules, before, token)) {
      chosen = rng.uniform(t * kDraws + kChosen) < rules.share;
    }
    may_go_on = true;
    before = token;
    if (!chosen) continue;
    targets[t] = token;
    tokens[t] = in_place_of(rules, rng, t, token);
  }
}

}  // namespace ds
