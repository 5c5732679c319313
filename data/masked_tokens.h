// Masked language modelling (Devlin et al., arXiv 1810.04805): which tokens of a sample are to be
// told from those around them, and what stands in their place (pure). Choices follow from a seed
// and the sample's place in the run, as RoBERTa's do (arXiv 1907.11692), so that a run that goes on
// elsewhere makes the same ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/values/rng.h"

namespace ds {

// Whether a token begins with white space, and whether it ends with some, as bits.
enum class WordEdge : uint8_t { kNone = 0, kBegins = 1, kEnds = 2, kBoth = 3 };

struct MaskingRules {
  double share = 0.15;  // of tokens, or of words, that are chosen
  double masked = 0.8;  // of those become `mask`,
  double random = 0.1;  // and these any token; the others stay as they are
  int32_t mask = 0;
  int64_t vocabulary = 1;
  std::vector<int32_t> never = {};  // tokens that are not chosen, ascending
  // The edges of each token: words are chosen as a whole, and tokens of the same word stand beside
  // each other without white space in between. Empty: tokens are chosen one by one.
  std::vector<WordEdge> word_edges = {};
};

// `tokens` [T] get what stands in the place of those that are chosen, `targets` [T] what they were,
// and -1 for the others. rng: of this sample.
void mask_tokens(const MaskingRules& rules, const Rng& rng, std::span<int32_t> tokens,
                 std::span<int32_t> targets);

}  // namespace ds
