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
  kOrpo,
  kSimpo,
  kCpo,
};
std::span<const EnumName> names_of(PreferenceLossType);
bool has_reference(PreferenceLossType type);
bool learns_likelihood(PreferenceLossType type);  // with preference.cpo_alpha
bool smooths_labels(PreferenceLossType type);

// The keys are those of TRL's DPOConfig, ORPOConfig and CPOConfig.
struct PreferenceConfig {
  PreferenceLossType loss_type = PreferenceLossType::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double discopop_tau = 0.05;
  double cpo_alpha = 1;
  double simpo_gamma = 0.5;
  std::optional<std::string> reference;  // a folder of Hugging Face
};
void fields(Visitor& v, PreferenceConfig& c);

}  // namespace ds
