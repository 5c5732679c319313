// Quantizers on plain spans (pure): fake quantization for quantize-aware training, group-wise
// integer forms for weights and for communication, pruning masks, and the bit schedule of
// mixture-of-quantization. Whole groups are made of the steps at the end, which the CPU halves of
// the kernels take part by part; what is done to one number is levels.h's. Nothing here knows a
// tensor or a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/values/rng.h"
#include "kernels/quantize/levels.h"

namespace ds::kernels {

struct FakeQuant {
  QuantScheme scheme = QuantScheme::kSymmetric;
  int bits = 8;        // 1 to 24; unused by ternary and binary
  int64_t groups = 1;  // equal runs of the flattened values, each with its own scale
  // Observed range of activations instead of the values' own; needs groups == 1 and a symmetric or
  // asymmetric scheme.
  std::optional<std::pair<float, float>> static_range = std::nullopt;
  // Stochastic rounding: adds uniform(-0.5, 0.5) of this stream before rounding. nullptr: nearest.
  const Rng* stochastic = nullptr;

  void check(int64_t numel) const;  // ConfigError
  bool by_magnitude() const {
    return scheme == QuantScheme::kTernary || scheme == QuantScheme::kBinary;
  }
};

// out[i] = dequantized quantized values[i]; both have the same length, a multiple of groups, and
// may be the same memory. With q = 2^bits:
//   symmetric  s = 2 max|x| / q;      out = clamp(round(x / s), -q/2, q/2 - 1) * s
//   asymmetric s = (max - min) / q;   z = round(min / s) * s;
//              out = clamp(round((x - z) / s), 0, q - 1) * s + z
//   ternary    t = 0.7 mean|x|;  out = sign(x) * mean(|x| where |x| > t) where |x| > t, else 0
//   binary     out = sign(x) * mean|x|, sign(0) = 0
// A group whose scale is 0 (all equal) is returned as it is; the reference divides by zero there.
// With a static range infinities are clamped, and NaN stays NaN by itself.
// Throws ConfigError for bits, groups or a static range that do not fit.
void fake_quantize(std::span<const float> values, std::span<float> out, const FakeQuant& how);

// 1 for the ceil(keep * n) largest values, else 0; equal values, such as the two zeros, are kept in
// order of position. NaN is the smallest.
std::vector<uint8_t> largest_mask(std::span<const float> values, double keep);
void mark_largest(std::span<const float> values, int64_t kept, std::span<uint8_t> mask);
int64_t kept_of(int64_t numel, double keep);  // ceil(keep * n); ConfigError for shares beyond 0..1

// Weight quantization for inference: unsigned, asymmetric, groups along one axis of a matrix.
struct GroupQuant {
  int bits = 8;  // 4 or 8
  int64_t rows = 0, columns = 0;
  int64_t group_size = 1;  // divides the grouped axis
  int group_axis = 1;      // 0: groups of rows for every column; 1: runs of columns in every row

  void check() const;  // ConfigError
  constexpr int64_t group_count() const { return rows * columns / group_size; }
  // Row-major in the shape whose grouped axis is replaced by (axis / group_size) groups.
  constexpr int64_t group_of(int64_t row, int64_t column) const {
    return group_axis == 0 ? row / group_size * columns + column
                           : row * (columns / group_size) + column / group_size;
  }
  constexpr int64_t group_of(int64_t element) const {
    return group_axis == 0 ? group_of(element / columns, element % columns) : element / group_size;
  }
};
struct GroupQuantized {
  std::vector<uint8_t> q;         // row-major; 4 bits: two per byte, the first in the high half
  std::vector<float> scale, min;  // one per group; x is near q / scale + min
};
// scale = (2^bits - 1) * (1 / (max - min)), or 1 when they are equal; q = round(clamp((x - min) *
// scale)), 0 where that is NaN. 4 bits need an even number of columns.
GroupQuantized quantize_groups(std::span<const float> values, const GroupQuant& how);
std::vector<float> dequantize_groups(const GroupQuantized& quantized, const GroupQuant& how);

// The integer form of communication kernels: signed values in [-2^(bits-1), 2^(bits-1) - 1].
// symmetric: scale = 2^bits / (2 max|x|), offset 0, scale 1 when all are zero;
// asymmetric: scale = 2^bits / (max - min), 1 when equal; offset = -2^(bits-1) - min * scale.
// Scale 1, too, where the group is so narrow that fp32 has none. Quantizes one group into `q` and
// returns its scale.
IntScale quantize_int(std::span<const float> group, int bits, IntRange range, std::span<int8_t> q);
void dequantize_int(std::span<const int8_t> q, IntScale scale, std::span<float> out);

// Steps of the above, on a part of a group each --------------------------------------------------
Range range_of(std::span<const float> x);
Magnitudes magnitudes_above(float threshold, std::span<const float> x);
// `first` is the position of x[0] among all values: the index of its random number.
void fake_quantize_part(std::span<const float> x, const FakeScale& scale, const Rng* stochastic,
                        int64_t first, std::span<float> out);
void fake_quantize_part(std::span<const float> x, const FakeMagnitude& magnitude,
                        std::span<float> out);
void quantize_int_part(std::span<const float> x, int bits, IntScale scale, std::span<int8_t> q);
// On elements `first` and on of the matrix: the ranges of their groups are widened; q and x are
// theirs alone, scales those of all groups.
void widen_ranges(std::span<const float> x, const GroupQuant& how, int64_t first,
                  std::span<float> low, std::span<float> high);
void quantize_groups_part(std::span<const float> x, const GroupQuant& how, int64_t first,
                          std::span<const float> scale, std::span<const float> min,
                          std::span<uint8_t> q);
void dequantize_groups_part(std::span<const uint8_t> q, const GroupQuant& how, int64_t first,
                            std::span<const float> scale, std::span<const float> min,
                            std::span<float> x);
// Codes of 4 bits, two in a byte, the first in the high half; of an odd number the last low half
// is 0.
void pack_nibbles(std::span<const int8_t> q, std::span<int8_t> packed);

// Bit width over training (MoQ): when steps reach the period, the period doubles (times factor),
// one bit is dropped and mixing restarts with the full-precision weight.
class BitSchedule {
 public:
  struct State {
    int bits = 16;
    int64_t period = 1;
    int64_t steps = 0;
    // The mixed weight is w * share + quantized(w) * (1 - share).
    double full_precision_share = 1.0;
  };
  // `factor` slows blocks with large eigenvalues down. change_ratio: how much the share falls a
  // step.
  BitSchedule(int start_bits, int target_bits, int64_t period, int64_t factor = 1,
              double change_ratio = 0.001);  // ConfigError
  const State& step();
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  int target_bits_;
  int64_t factor_;
  double change_ratio_;
  State state_;
};

}  // namespace ds::kernels
