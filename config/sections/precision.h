// Sections about number formats: fp16, bf16, amp, torch_autocast, data_types.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class FloatType : int { kFp32, kFp16, kBf16 };
std::span<const EnumName> names_of(FloatType);
enum class AmpLevel : int { kO0, kO1, kO2, kO3 };
std::span<const EnumName> names_of(AmpLevel);
enum class AutocastType : int { kBf16, kFp16, kFp32 };
std::span<const EnumName> names_of(AutocastType);

// loss_scale 0 means dynamic scaling: it starts at 2^initial_scale_power, doubles after
// loss_scale_window clean steps and halves after `hysteresis` overflows, never below
// min_loss_scale.
struct Fp16Config {
  bool enabled = false;
  bool auto_cast = false;
  double loss_scale = 0.0;
  int64_t initial_scale_power = 16;
  int64_t loss_scale_window = 1000;
  int64_t hysteresis = 2;
  bool consecutive_hysteresis = false;
  double min_loss_scale = 1;
  bool fp16_master_weights_and_grads = false;
};
void fields(Visitor& v, Fp16Config& c);
// Scales that fp32 holds, and whose inverses it holds with all their bits.
inline constexpr double kSmallestLossScale = 0x1p-126;
inline constexpr double kLargestLossScale = 0x1p126;
// The floor of the dynamic scale; 0, none, is the smallest scale.
double least_loss_scale(const Fp16Config& c);

struct Bf16Config {
  bool enabled = false;
  bool immediate_grad_update = false;
  bool check_grad_overflow = true;
  bool bf16_master_weights_and_grads = false;
  bool bf16_optimizer_states = false;
};
void fields(Visitor& v, Bf16Config& c);

// A loss scale of none follows overflows at O1 and O2, and is 1 at O0 and O3.
struct AmpConfig {
  bool enabled = false;
  AmpLevel opt_level = AmpLevel::kO1;
  Value others;

  // These read the others that are heeded; to refuse what is said otherwise is up to a rule.
  std::optional<double> loss_scale() const;  // nothing: none is given
  bool wants_dynamic_scale() const;          // as given, or by the level
  double bound_of_scale(std::string_view key, double otherwise) const;
};
void fields(Visitor& v, AmpConfig& c);

struct TorchAutocastConfig {
  bool enabled = false;
  std::optional<AutocastType> dtype = AutocastType::kBf16;
  std::optional<std::vector<std::string>> lower_precision_safe_modules;
};
// Types of PyTorch's modules as far as models here have them, and those that they never have.
enum class TorchModule : int { kLinear, kEmbedding, kLayerNorm, kConvolution };
// "torch.nn.Linear", "Linear"; nothing: no such type is known.
std::optional<TorchModule> torch_module(std::string_view name);
void fields(Visitor& v, TorchAutocastConfig& c);

struct DataTypesConfig {
  std::optional<FloatType> grad_accum_dtype;
  std::optional<FloatType> param_dtype;
  std::optional<FloatType> buffer_dtype;
};
void fields(Visitor& v, DataTypesConfig& c);

}  // namespace ds
