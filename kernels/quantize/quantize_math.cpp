// Quantizer arithmetic.
#include "kernels/quantize/quantize_math.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::kernels {
namespace {

Range static_range_of(const FakeQuant& how) {
  return {how.static_range->first, how.static_range->second};
}

FakeMagnitude ternary(std::span<const float> x) {
  const float threshold = ternary_threshold(magnitudes_above(kAllMagnitudes, x));
  return ternary_of(threshold, magnitudes_above(threshold, x));
}

}  // namespace

void FakeQuant::check(int64_t numel) const {
  if (bits < 1 || bits > 24) {
    throw ConfigError(fmt::format("quantize: bits is {}, expected 1 to 24", bits));
  }
  if (groups < 1 || numel % groups != 0) {
    throw ConfigError(fmt::format(
        "quantize: {} values cannot be cut into {} equal groups; use a divisor", numel, groups));
  }
  if (!static_range) return;
  if (groups != 1) {
    throw ConfigError(
        fmt::format("quantize: a static range needs one group, {} were asked for", groups));
  }
  if (by_magnitude()) {
    throw ConfigError(
        "quantize: ternary and binary take their levels from the values; give a static range to "
        "symmetric or asymmetric quantization only");
  }
}

void fake_quantize(std::span<const float> values, std::span<float> out, const FakeQuant& how) {
  DS_CHECK(values.size() == out.size(), "quantize: {} values into {}", values.size(), out.size());
  how.check(narrow<int64_t>(values.size()));
  const size_t size = values.size() / to_size(how.groups);
  if (size == 0) return;
  for (size_t first = 0; first < values.size(); first += size) {
    const auto x = values.subspan(first, size);
    const auto to = out.subspan(first, size);
    if (how.by_magnitude()) {
      const bool is_binary = how.scheme == QuantScheme::kBinary;
      fake_quantize_part(x, is_binary ? binary_of(magnitudes_above(kAllMagnitudes, x)) : ternary(x),
                         to);
    } else {
      const Range range = how.static_range ? static_range_of(how) : range_of(x);
      fake_quantize_part(x, fake_scale_of(how.scheme, how.bits, range), how.stochastic,
                         narrow<int64_t>(first), to);
    }
  }
}

Range range_of(std::span<const float> x) {
  Range range;
  for (const float v : x) range = joined(range, {v, v});
  return range;
}

Magnitudes magnitudes_above(float threshold, std::span<const float> x) {
  Magnitudes all;
  for (const float v : x) all = joined(all, magnitude_above(threshold, v));
  return all;
}

void fake_quantize_part(std::span<const float> x, const FakeScale& scale, const Rng* stochastic,
                        int64_t first, std::span<float> out) {
  for (size_t i = 0; i < x.size(); ++i) {
    const float noise = stochastic ? stochastic->uniform(to_size(first) + i) - 0.5F : 0.0F;
    out[i] = fake_quantized(scale, x[i], noise);
  }
}

void fake_quantize_part(std::span<const float> x, const FakeMagnitude& magnitude,
                        std::span<float> out) {
  for (size_t i = 0; i < x.size(); ++i) out[i] = fake_quantized(magnitude, x[i]);
}

int64_t kept_of(int64_t numel, double keep) {
  if (!(keep >= 0 && keep <= 1)) {
    throw ConfigError(fmt::format("pruning mask: the share kept is {}, expected 0 to 1", keep));
  }
  return static_cast<int64_t>(std::ceil(keep * static_cast<double>(numel)));
}

std::vector<uint8_t> largest_mask(std::span<const float> values, double keep) {
  const int64_t kept = kept_of(narrow<int64_t>(values.size()), keep);
  std::vector<uint8_t> mask(values.size());
  mark_largest(values, kept, mask);
  return mask;
}

void mark_largest(std::span<const float> values, int64_t kept, std::span<uint8_t> mask) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater{}, [&](size_t i) { return order_of(values[i]); });
  std::ranges::fill(mask, uint8_t{0});
  for (size_t k = 0; k < to_size(kept); ++k) mask[order[k]] = 1;
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

GroupQuantized quantize_groups(std::span<const float> values, const GroupQuant& how) {
  how.check();
  DS_CHECK(narrow<int64_t>(values.size()) == how.rows * how.columns,
           "weight quantization: {} values for {} x {}", values.size(), how.rows, how.columns);
  const size_t groups = to_size(how.group_count());
  const Range none;
  std::vector<float> min(groups, none.low), scale(groups, none.high);
  widen_ranges(values, how, 0, min, scale);
  for (size_t g = 0; g < groups; ++g) {
    const GroupScale of_group = group_scale_of(how.bits, {min[g], scale[g]});
    scale[g] = of_group.scale;
    min[g] = of_group.min;
  }
  std::vector<uint8_t> q(how.bits == 4 ? values.size() / 2 : values.size());
  quantize_groups_part(values, how, 0, scale, min, q);
  return {std::move(q), std::move(scale), std::move(min)};
}

std::vector<float> dequantize_groups(const GroupQuantized& quantized, const GroupQuant& how) {
  how.check();
  std::vector<float> values(to_size(how.rows * how.columns));
  dequantize_groups_part(quantized.q, how, 0, quantized.scale, quantized.min, values);
  return values;
}

void widen_ranges(std::span<const float> x, const GroupQuant& how, int64_t first,
                  std::span<float> low, std::span<float> high) {
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = to_size(how.group_of(first + narrow<int64_t>(i)));
    low[g] = lower(low[g], x[i]);
    high[g] = higher(high[g], x[i]);
  }
}

void quantize_groups_part(std::span<const float> x, const GroupQuant& how, int64_t first,
                          std::span<const float> scale, std::span<const float> min,
                          std::span<uint8_t> q) {
  const auto level = [&](size_t i) {
    const size_t g = to_size(how.group_of(first + narrow<int64_t>(i)));
    return group_level({scale[g], min[g]}, how.bits, x[i]);
  };
  for (size_t i = 0; i < q.size(); ++i) {
    q[i] = how.bits == 4 ? packed_nibbles(level(2 * i), level(2 * i + 1))
                         : static_cast<uint8_t>(level(i));
  }
}

void dequantize_groups_part(std::span<const uint8_t> q, const GroupQuant& how, int64_t first,
                            std::span<const float> scale, std::span<const float> min,
                            std::span<float> x) {
  for (size_t i = 0; i < x.size(); ++i) {
    const size_t g = to_size(how.group_of(first + narrow<int64_t>(i)));
    const int level = how.bits == 4 ? nibble(q[i / 2], i % 2 == 0) : q[i];
    x[i] = group_value({scale[g], min[g]}, level);
  }
}

IntScale quantize_int(std::span<const float> group, int bits, IntRange range, std::span<int8_t> q) {
  if (bits < 2 || bits > 8) {
    throw ConfigError(fmt::format("quantize: bits is {}, expected 2 to 8", bits));
  }
  DS_CHECK(group.size() == q.size(), "quantize: {} values into {}", group.size(), q.size());
  if (group.empty()) return {};
  const IntScale scale = int_scale_of(range, bits, range_of(group));
  quantize_int_part(group, bits, scale, q);
  return scale;
}

void quantize_int_part(std::span<const float> x, int bits, IntScale scale, std::span<int8_t> q) {
  for (size_t i = 0; i < x.size(); ++i) q[i] = static_cast<int8_t>(int_code(scale, bits, x[i]));
}

void dequantize_int(std::span<const int8_t> q, IntScale scale, std::span<float> out) {
  DS_CHECK(q.size() == out.size(), "dequantize: {} values into {}", q.size(), out.size());
  for (size_t i = 0; i < q.size(); ++i) out[i] = int_value(scale, q[i]);
}

void pack_nibbles(std::span<const int8_t> q, std::span<int8_t> packed) {
  for (size_t i = 0; i < packed.size(); ++i) {
    const int second = 2 * i + 1 < q.size() ? q[2 * i + 1] : 0;
    packed[i] = static_cast<int8_t>(packed_nibbles(q[2 * i], second));
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
