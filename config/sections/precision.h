// Sections about number formats: fp16, bf16, amp, torch_autocast, data_types.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
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
  int64_t min_loss_scale = 1;
  bool fp16_master_weights_and_grads = false;
};
void fields(Visitor& v, Fp16Config& c);

struct Bf16Config {
  bool enabled = false;
  bool immediate_grad_update = false;
  bool check_grad_overflow = true;
  bool bf16_master_weights_and_grads = false;
  bool bf16_optimizer_states = false;
};
void fields(Visitor& v, Bf16Config& c);

struct AmpConfig {
  bool enabled = false;
  AmpLevel opt_level = AmpLevel::kO1;
  Value others;
};
void fields(Visitor& v, AmpConfig& c);

struct TorchAutocastConfig {
  bool enabled = false;
  std::optional<AutocastType> dtype = AutocastType::kBf16;
  std::optional<std::vector<std::string>> lower_precision_safe_modules;
};
void fields(Visitor& v, TorchAutocastConfig& c);

struct DataTypesConfig {
  std::optional<FloatType> grad_accum_dtype;
  std::optional<FloatType> param_dtype;
  std::optional<FloatType> buffer_dtype;
};
void fields(Visitor& v, DataTypesConfig& c);

}  // namespace ds
