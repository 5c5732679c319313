// Preference training: how a model learns to say the better one of two answers
// (kernels/preference/preference.h).
#pragma once

#include <optional>
#include <span>
#include <string>

#include "config/reader/enum_name.h"
#include "config/reader/fields.h"

namespace ds {

enum class PreferenceLossType : int {
  kSigmoid,
  kSigmoidNorm,
  kHinge,
  kIpo,
  kExoPair,
  kNcaPair,
  kRobust,
  kBcoPair,
  kSppoHard,
  kApoZero,
  kApoDown,
  kDiscopop,
};
std::span<const EnumName> names_of(PreferenceLossType);

// The keys are those of TRL's DPOConfig.
struct PreferenceConfig {
  PreferenceLossType loss_type = PreferenceLossType::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double discopop_tau = 0.05;
  std::optional<std::string> reference;  // a folder of Hugging Face
};
void fields(Visitor& v, PreferenceConfig& c);

}  // namespace ds
