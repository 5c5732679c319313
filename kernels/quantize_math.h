// Quantizer arithmetic on plain spans (pure): fake quantization for quantize-aware training,
// group-wise integer forms for weights and for communication, pruning masks, and the bit schedule
// of mixture-of-quantization. All arithmetic is fp32, rounding half to even. Quantize kernels for
// tensors are tested against this file; nothing here knows a tensor or a device.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/rng.h"

namespace ds::kernels {

enum class QuantScheme { kSymmetric, kAsymmetric, kTernary, kBinary };

struct FakeQuant {
  QuantScheme scheme = QuantScheme::kSymmetric;
  int bits = 8;        // 1 to 24; unused by ternary and binary
  int64_t groups = 1;  // equal runs of the flattened values, each with its own scale
  // Observed range of activations instead of the values' own; needs groups == 1 and a symmetric or
  // asymmetric scheme.
  std::optional<std::pair<float, float>> static_range = std::nullopt;
  // Stochastic rounding: adds uniform(-0.5, 0.5) of this stream before rounding. nullptr: nearest.
  const Rng* stochastic = nullptr;
};

// out[i] = dequantized quantized values[i]; both have the same length, a multiple of groups, and
// may be the same memory. With q = 2^bits:
//   symmetric  s = 2 max|x| / q;      out = clamp(round(x / s), -q/2, q/2 - 1) * s
//   asymmetric s = (max - min) / q;   z = round(min / s) * s;
//              out = clamp(round((x - z) / s), 0, q - 1) * s + z
//   ternary    t = 0.7 mean|x|;  out = sign(x) * mean(|x| where |x| > t) where |x| > t, else 0
//   binary     out = sign(x) * mean|x|, sign(0) = 0
// A group whose scale is 0 (all equal) is returned as it is; the reference divides by zero there.
// Throws ConfigError for bits, groups or a static range that do not fit.
void fake_quantize(std::span<const float> values, std::span<float> out, const FakeQuant& how);

// 1 for the ceil(keep * n) largest values, else 0; equal values are kept in order of position.
std::vector<uint8_t> largest_mask(std::span<const float> values, double keep);

// Weight quantization for inference: unsigned, asymmetric, groups along one axis of a matrix.
struct GroupQuant {
  int bits = 8;  // 4 or 8
  int64_t rows = 0, columns = 0;
  int64_t group_size = 1;  // divides the grouped axis
  int group_axis = 1;      // 0: groups of rows for every column; 1: runs of columns in every row

  void check() const;  // ConfigError
  int64_t group_count() const { return rows * columns / group_size; }
  // Row-major in the shape whose grouped axis is replaced by (axis / group_size) groups.
  int64_t group_of(int64_t row, int64_t column) const;
};
struct GroupQuantized {
  std::vector<uint8_t> q;         // row-major; 4 bits: two per byte, the first in the high half
  std::vector<float> scale, min;  // one per group; x is near q / scale + min
};
// scale = (2^bits - 1) * (1 / (max - min)), or 1 when they are equal; q = round(clamp((x - min) *
// scale)). 4 bits need an even number of columns.
GroupQuantized quantize_groups(std::span<const float> values, const GroupQuant& how);
std::vector<float> dequantize_groups(const GroupQuantized& quantized, const GroupQuant& how);

// The integer form of communication kernels: signed values in [-2^(bits-1), 2^(bits-1) - 1].
enum class IntRange { kSymmetric, kAsymmetric };
struct IntScale {
  float scale = 1;  // q = round(x * scale + offset)
  float offset = 0;
};
// symmetric: scale = 2^bits / (2 max|x|), offset 0, scale 1 when all are zero;
// asymmetric: scale = 2^bits / (max - min), 1 when equal; offset = -2^(bits-1) - min * scale.
// Quantizes one group into `q` and returns its scale.
IntScale quantize_int(std::span<const float> group, int bits, IntRange range, std::span<int8_t> q);
void dequantize_int(std::span<const int8_t> q, IntScale scale, std::span<float> out);

// Bit width over training (MoQ): when steps reach the period, the period doubles (times factor),
// one bit is dropped and mixing restarts with the full-precision weight.
class BitSchedule {
 public:
  struct State {
    int bits = 16;
    int64_t period = 1;
    int64_t steps = 0;
    // Of the mixed weight: w * share + quantized(w) * (1 - share).
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
