// Rotary positions (Su et al., arXiv 2104.09864) as families describe them: which elements of a
// head turn, in which pairs, and how fast. Frequencies are pure; Hugging Face's models have the
// same (transformers' modeling_rope_utils).
#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

namespace ds {

// Positions count as so many times fewer (Chen et al., arXiv 2306.15595).
struct LinearScaling {
  double factor = 1;
};

// Llama 3.1 (arXiv 2407.21783): waves that are longer than the original context by low_freq_factor
// turn `factor` times slower, those that are shorter by high_freq_factor as before, and those
// between them by something between.
struct Llama3Scaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  double original_positions = 8192;
};

// YaRN (Peng et al., arXiv 2309.00071): pairs that turn more than beta_fast times in the original
// context turn as before, those that turn less than beta_slow times `factor` times slower, with a
// ramp between them; scores are sharpened by attention_factor, on queries and on keys.
struct YarnScaling {
  double factor = 1;
  double beta_fast = 32;
  double beta_slow = 1;
  double original_positions = 2048;
  double attention_factor = 0;  // 0: 0.1 ln(factor) + 1, or as the two numbers below say
  // With both, (0.1 score_scale ln(factor) + 1) / (0.1 whole_scale ln(factor) + 1); 0: unset.
  double score_scale = 0, whole_scale = 0;
  bool rounds_ramp = true;  // its ends are whole pairs
};

// LongRoPE (Ding et al., arXiv 2402.13753) in sequences that are no longer than the original
// context: each pair turns so many times slower; scores are sharpened by attention_factor, on
// queries and on keys.
struct LongRopeScaling {
  std::vector<double> pair_factors;
  double factor = 1;  // of the longest sequence
  double original_positions = 4096;
  double attention_factor = 0;  // 0: sqrt(1 + ln(factor) / ln(original_positions))
};

using RotaryScaling =
    std::variant<std::monostate, LinearScaling, Llama3Scaling, YarnScaling, LongRopeScaling>;

enum class RotaryPairs : uint8_t {
  kHalves,      // element j of the first half of what turns, and element j of the second
  kNeighbours,  // elements 2 j and 2 j + 1
};

struct RotarySpec {
  double theta = 10000;  // base of the frequencies
  double share = 1;      // of a head that turns, from its beginning on
  RotaryPairs pairs = RotaryPairs::kHalves;
  RotaryScaling scaling = {};
};

// Elements of a head that turn; even.
int64_t rotary_width(const RotarySpec& spec, int64_t head_dim);
// Angles per position, one for each pair, in fp32: theta^(-2j / width), scaled.
std::vector<float> rotary_frequencies(const RotarySpec& spec, int64_t head_dim);
// What sines and cosines are multiplied by.
double rotary_factor(const RotarySpec& spec);

}  // namespace ds
