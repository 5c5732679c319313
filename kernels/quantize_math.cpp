// Quantizer arithmetic.
#include "kernels/quantize_math.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/error.h"
#include "core/index.h"

namespace ds::kernels {
namespace {

float largest_magnitude(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) largest = std::max(largest, std::abs(v));
  return largest;
}

float mean_magnitude(std::span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += std::abs(v);
  return static_cast<float>(sum / static_cast<double>(x.size()));
}

std::pair<float, float> range_of(std::span<const float> x) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  return {*low, *high};
}

// round(x + noise), half to even; `first` is the position of the group's first value in the whole.
class Rounder {
 public:
  Rounder(const Rng* noise, size_t first) : noise_(noise), first_(first) {}
  float operator()(float x, size_t i) const {
    return std::nearbyint(noise_ ? x + noise_->uniform(first_ + i) - 0.5F : x);
  }

 private:
  const Rng* noise_;
  size_t first_;
};

void symmetric(std::span<const float> x, std::span<float> out, const FakeQuant& how,
               const Rounder& round) {
  const float q = std::exp2(static_cast<float>(how.bits));
  const float largest = how.static_range
                            ? std::max(std::abs(how.static_range->first), how.static_range->second)
                            : largest_magnitude(x);
  const float scale = 2 * largest / q;
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = scale == 0 ? x[i] : std::clamp(round(x[i] / scale, i), -q / 2, q / 2 - 1) * scale;
  }
}

void asymmetric(std::span<const float> x, std::span<float> out, const FakeQuant& how,
                const Rounder& round) {
  const float q = std::exp2(static_cast<float>(how.bits));
  const auto [low, high] = how.static_range ? *how.static_range : range_of(x);
  const float scale = (high - low) / q;
  const float zero = scale == 0 ? 0 : std::nearbyint(low / scale) * scale;
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] =
        scale == 0 ? x[i] : std::clamp(round((x[i] - zero) / scale, i), 0.0F, q - 1) * scale + zero;
  }
}

void ternary(std::span<const float> x, std::span<float> out) {
  const float threshold = 0.7F * mean_magnitude(x);
  double sum = 0;
  int64_t count = 0;
  for (const float v : x) {
    if (std::abs(v) > threshold) {
      sum += std::abs(v);
      ++count;
    }
  }
  const float level = count > 0 ? static_cast<float>(sum / static_cast<double>(count)) : 0;
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i] > threshold ? level : x[i] < -threshold ? -level : 0.0F;
  }
}

void binary(std::span<const float> x, std::span<float> out) {
  const float level = mean_magnitude(x);
  for (size_t i = 0; i < x.size(); ++i) {
    out[i] = x[i] > 0 ? level : x[i] < 0 ? -level : 0.0F;
  }
}

void check(const FakeQuant& how, size_t numel) {
  if (how.bits < 1 || how.bits > 24) {
    throw ConfigError(fmt::format("quantize: bits is {}, expected 1 to 24", how.bits));
  }
  if (how.groups < 1 || static_cast<int64_t>(numel) % how.groups != 0) {
    throw ConfigError(
        fmt::format("quantize: {} values cannot be cut into {} equal groups; use a divisor", numel,
                    how.groups));
  }
  if (!how.static_range) return;
  if (how.groups != 1) {
    throw ConfigError(
        fmt::format("quantize: a static range needs one group, {} were asked for", how.groups));
  }
  if (how.scheme == QuantScheme::kTernary || how.scheme == QuantScheme::kBinary) {
    throw ConfigError(
        "quantize: ternary and binary take their levels from the values; give a static range to "
        "symmetric or asymmetric quantization only");
  }
}

}  // namespace

void fake_quantize(std::span<const float> values, std::span<float> out, const FakeQuant& how) {
  DS_CHECK(values.size() == out.size(), "quantize: {} values into {}", values.size(), out.size());
  check(how, values.size());
  const size_t size = values.size() / to_size(how.groups);
  if (size == 0) return;
  for (size_t first = 0; first < values.size(); first += size) {
    const auto from = values.subspan(first, size);
    const auto to = out.subspan(first, size);
    const Rounder round(how.stochastic, first);
    switch (how.scheme) {
      case QuantScheme::kSymmetric:
        symmetric(from, to, how, round);
        break;
      case QuantScheme::kAsymmetric:
        asymmetric(from, to, how, round);
        break;
      case QuantScheme::kTernary:
        ternary(from, to);
        break;
      case QuantScheme::kBinary:
        binary(from, to);
        break;
    }
  }
}

std::vector<uint8_t> largest_mask(std::span<const float> values, double keep) {
  if (!(keep >= 0 && keep <= 1)) {
    throw ConfigError(fmt::format("pruning mask: the share kept is {}, expected 0 to 1", keep));
  }
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  const double kept = std::ceil(keep * static_cast<double>(values.size()));
  std::vector<uint8_t> mask(values.size(), 0);
  for (size_t k = 0; k < static_cast<size_t>(kept); ++k) mask[order[k]] = 1;
  return mask;
}

void GroupQuant::check() const {
  if (bits != 4 && bits != 8) {
    throw ConfigError(fmt::format("weight quantization: num_bits is {}, expected 4 or 8", bits));
  }
  if (group_axis != 0 && group_axis != 1) {
    throw ConfigError(
        fmt::format("weight quantization: group_dim is {}, expected 0 or 1", group_axis));
  }
  const int64_t length = group_axis == 0 ? rows : columns;
  if (group_size < 1 || length % group_size != 0) {
    throw ConfigError(
        fmt::format("weight quantization: group_size {} does not divide the {} entries of axis {}",
                    group_size, length, group_axis));
  }
  if (bits == 4 && columns % 2 != 0) {
    throw ConfigError(fmt::format(
        "weight quantization: {} columns cannot be packed two to a byte; use num_bits 8", columns));
  }
}

int64_t GroupQuant::group_of(int64_t row, int64_t column) const {
  return group_axis == 0 ? row / group_size * columns + column
                         : row * (columns / group_size) + column / group_size;
}

GroupQuantized quantize_groups(std::span<const float> values, const GroupQuant& how) {
  how.check();
  DS_CHECK(narrow<int64_t>(values.size()) == how.rows * how.columns,
           "weight quantization: {} values for {} x {}", values.size(), how.rows, how.columns);
  const size_t groups = to_size(how.group_count());
  std::vector<float> low(groups, INFINITY), high(groups, -INFINITY), scale(groups);
  const auto for_each = [&](const auto& use) {
    for (int64_t row = 0, i = 0; row < how.rows; ++row) {
      for (int64_t column = 0; column < how.columns; ++column, ++i) {
        use(to_size(i), to_size(how.group_of(row, column)));
      }
    }
  };
  for_each([&](size_t i, size_t g) {
    low[g] = std::min(low[g], values[i]);
    high[g] = std::max(high[g], values[i]);
  });
  const float top = how.bits == 4 ? 15 : 255;
  for (size_t g = 0; g < groups; ++g) {
    // The reference multiplies by the rounded reciprocal; a quotient may differ in its last bit,
    // which shows wherever q / scale and min cancel.
    scale[g] = high[g] > low[g] ? top * (1 / (high[g] - low[g])) : 1;
  }
  std::vector<uint8_t> q(how.bits == 4 ? values.size() / 2 : values.size(), 0);
  for_each([&](size_t i, size_t g) {
    const float exact = std::clamp((values[i] - low[g]) * scale[g], 0.0F, top);
    const unsigned level = static_cast<unsigned>(std::nearbyint(exact));
    if (how.bits == 8) {
      q[i] = static_cast<uint8_t>(level);
    } else {
      q[i / 2] = static_cast<uint8_t>(q[i / 2] | (i % 2 == 0 ? level << 4 : level));
    }
  });
  return {std::move(q), std::move(scale), std::move(low)};
}

std::vector<float> dequantize_groups(const GroupQuantized& quantized, const GroupQuant& how) {
  how.check();
  std::vector<float> values(to_size(how.rows * how.columns));
  for (int64_t row = 0, i = 0; row < how.rows; ++row) {
    for (int64_t column = 0; column < how.columns; ++column, ++i) {
      const size_t at = to_size(i), g = to_size(how.group_of(row, column));
      const uint8_t byte = quantized.q[how.bits == 4 ? at / 2 : at];
      const int level = how.bits == 8 ? byte : at % 2 == 0 ? byte >> 4 : byte & 15;
      values[at] = static_cast<float>(level) / quantized.scale[g] + quantized.min[g];
    }
  }
  return values;
}

IntScale quantize_int(std::span<const float> group, int bits, IntRange range, std::span<int8_t> q) {
  if (bits < 2 || bits > 8) {
    throw ConfigError(fmt::format("quantize: bits is {}, expected 2 to 8", bits));
  }
  DS_CHECK(group.size() == q.size(), "quantize: {} values into {}", group.size(), q.size());
  if (group.empty()) return {};
  const float levels = static_cast<float>(1 << bits);
  IntScale result;
  if (range == IntRange::kSymmetric) {
    const float largest = largest_magnitude(group);
    if (largest > 0) result.scale = levels / (2 * largest);
  } else {
    const auto [low, high] = range_of(group);
    if (high > low) result.scale = levels / (high - low);
    result.offset = -levels / 2 - low * result.scale;
  }
  for (size_t i = 0; i < group.size(); ++i) {
    const float level = std::nearbyint(group[i] * result.scale + result.offset);
    q[i] = static_cast<int8_t>(std::clamp(level, -levels / 2, levels / 2 - 1));
  }
  return result;
}

void dequantize_int(std::span<const int8_t> q, IntScale scale, std::span<float> out) {
  DS_CHECK(q.size() == out.size(), "dequantize: {} values into {}", q.size(), out.size());
  for (size_t i = 0; i < q.size(); ++i) {
    out[i] = (static_cast<float>(q[i]) - scale.offset) / scale.scale;
  }
}

BitSchedule::BitSchedule(int start_bits, int target_bits, int64_t period, int64_t factor,
                         double change_ratio)
    : target_bits_(target_bits), factor_(factor), change_ratio_(change_ratio) {
  if (target_bits < 1 || start_bits < target_bits) {
    throw ConfigError(fmt::format("quantize schedule: from {} to {} bits, expected to go down",
                                  start_bits, target_bits));
  }
  if (period < 1 || factor < 1) {
    throw ConfigError(fmt::format("quantize schedule: period {} and factor {}, expected at least 1",
                                  period, factor));
  }
  state_.bits = start_bits;
  state_.period = period;
}

const BitSchedule::State& BitSchedule::step() {
  ++state_.steps;
  state_.full_precision_share = state_.full_precision_share >= change_ratio_
                                    ? state_.full_precision_share - change_ratio_
                                    : 0.0;
  if (state_.bits != target_bits_ && state_.steps >= state_.period) {
    state_.full_precision_share = 1.0;
    state_.period = state_.period * 2 * factor_;
    --state_.bits;
  }
  return state_;
}

}  // namespace ds::kernels
