#include "config/families/spec/rotary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

void scale(const std::monostate&, const RotarySpec&, std::vector<float>&) {}

void scale(const LinearScaling& s, const RotarySpec&, std::vector<float>& frequencies) {
  for (float& frequency : frequencies) frequency /= static_cast<float>(s.factor);
}

void scale(const Llama3Scaling& s, const RotarySpec&, std::vector<float>& frequencies) {
  const auto original = static_cast<float>(s.original_positions);
  const auto factor = static_cast<float>(s.factor);
  const auto low = static_cast<float>(s.low_freq_factor);
  const auto high = static_cast<float>(s.high_freq_factor);
  const auto longest = static_cast<float>(s.original_positions / s.low_freq_factor);
  const auto shortest = static_cast<float>(s.original_positions / s.high_freq_factor);
  for (float& frequency : frequencies) {
    const float wave = static_cast<float>(2 * std::numbers::pi) / frequency;
    if (wave < shortest) continue;
    if (wave > longest) {
      frequency /= factor;
      continue;
    }
    const float smooth = (original / wave - low) / (high - low);
    frequency = (1 - smooth) * frequency / factor + smooth * frequency;
  }
}

// The pair that turns so many times in the original context.
double pair_of(double turns, const YarnScaling& s, double theta, double width) {
  return width * std::log(s.original_positions / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(theta));
}

float power_of(const RotarySpec& spec, size_t pair, size_t pairs) {
  const float exponent = static_cast<float>(2 * pair) / static_cast<float>(2 * pairs);
  return std::pow(static_cast<float>(spec.theta), exponent);
}

// Divisions are those of transformers, for its bits.
void scale(const YarnScaling& s, const RotarySpec& spec, std::vector<float>& frequencies) {
  const auto width = static_cast<double>(2 * frequencies.size());
  double first = pair_of(s.beta_fast, s, spec.theta, width);
  double last = pair_of(s.beta_slow, s, spec.theta, width);
  if (s.rounds_ramp) {
    first = std::floor(first);
    last = std::ceil(last);
  }
  first = std::max(first, 0.0);
  last = std::min(last, width - 1);
  if (first == last) last += 0.001;  // no division by nothing
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const auto place = static_cast<float>(j);
    const float ramp = std::clamp(
        (place - static_cast<float>(first)) / static_cast<float>(last - first), 0.0F, 1.0F);
    const float kept = 1 - ramp;
    const float slow =
        1.0F / (static_cast<float>(s.factor) * power_of(spec, j, frequencies.size()));
    frequencies[j] = slow * (1 - kept) + frequencies[j] * kept;
  }
}

// One division, as transformers has it, for its bits.
void scale(const LongRopeScaling& s, const RotarySpec& spec, std::vector<float>& frequencies) {
  DS_CHECK(s.pair_factors.size() == frequencies.size(), "rotary: {} factors of {} pairs",
           s.pair_factors.size(), frequencies.size());
  for (size_t j = 0; j < frequencies.size(); ++j) {
    const auto slower = static_cast<float>(s.pair_factors[j]);
    frequencies[j] = 1.0F / (slower * power_of(spec, j, frequencies.size()));
  }
}

double factor_of(const YarnScaling& s) {
  if (s.attention_factor > 0) return s.attention_factor;
  if (s.factor <= 1) return 1;
  const auto by = [&](double scale) { return 0.1 * scale * std::log(s.factor) + 1; };
  if (s.score_scale > 0 && s.whole_scale > 0) return by(s.score_scale) / by(s.whole_scale);
  return by(1);
}
double factor_of(const LongRopeScaling& s) {
  if (s.attention_factor > 0) return s.attention_factor;
  return s.factor > 1 ? std::sqrt(1 + std::log(s.factor) / std::log(s.original_positions)) : 1;
}
template <class Scaling>
double factor_of(const Scaling&) {
  return 1;
}

}  // namespace

int64_t rotary_width(const RotarySpec& spec, int64_t head_dim) {
  return static_cast<int64_t>(static_cast<double>(head_dim) * spec.share) / 2 * 2;
}

std::vector<float> rotary_frequencies(const RotarySpec& spec, int64_t head_dim) {
  const int64_t width = rotary_width(spec, head_dim);
  std::vector<float> frequencies(to_size(width / 2));
  for (size_t j = 0; j < frequencies.size(); ++j) {
    frequencies[j] = 1.0F / power_of(spec, j, frequencies.size());
  }
  std::visit([&](const auto& scaling) { scale(scaling, spec, frequencies); }, spec.scaling);
  return frequencies;
}

double rotary_factor(const RotarySpec& spec) {
  return std::visit([](const auto& scaling) { return factor_of(scaling); }, spec.scaling);
}

}  // namespace ds
