#include "train/settings/preference_settings.h"

#include "core/status/error.h"

namespace ds {
namespace {

using kernels::PreferenceLoss;

PreferenceLoss loss_of(PreferenceLossType type) {
  switch (type) {
    case PreferenceLossType::kSigmoid:
      return PreferenceLoss::kSigmoid;
    case PreferenceLossType::kSigmoidNorm:
      return PreferenceLoss::kSigmoidNorm;
    case PreferenceLossType::kHinge:
      return PreferenceLoss::kHinge;
    case PreferenceLossType::kIpo:
      return PreferenceLoss::kIpo;
    case PreferenceLossType::kExoPair:
      return PreferenceLoss::kExoPair;
    case PreferenceLossType::kNcaPair:
      return PreferenceLoss::kNcaPair;
    case PreferenceLossType::kRobust:
      return PreferenceLoss::kRobust;
    case PreferenceLossType::kBcoPair:
      return PreferenceLoss::kBcoPair;
    case PreferenceLossType::kSppoHard:
      return PreferenceLoss::kSppoHard;
    case PreferenceLossType::kApoZero:
      return PreferenceLoss::kApoZero;
    case PreferenceLossType::kApoDown:
      return PreferenceLoss::kApoDown;
    case PreferenceLossType::kDiscopop:
      return PreferenceLoss::kDiscopop;
    case PreferenceLossType::kOrpo:
      return PreferenceLoss::kOrpo;
    case PreferenceLossType::kSimpo:
      return PreferenceLoss::kSimpo;
    case PreferenceLossType::kCpo:
      return PreferenceLoss::kCpo;
  }
  throw InternalError("preference.loss_type");
}

}  // namespace

std::optional<kernels::PreferenceRule> preference_rule(const Config& config) {
  if (!config.data.supervised.has_pairs()) return std::nullopt;
  const PreferenceConfig c = config.preference.value_or(PreferenceConfig());
  return kernels::PreferenceRule{.loss = loss_of(c.loss_type),
                                 .beta = c.beta,
                                 .label_smoothing = c.label_smoothing,
                                 .discopop_tau = c.discopop_tau,
                                 .cpo_alpha = c.cpo_alpha,
                                 .simpo_gamma = c.simpo_gamma};
}

bool asks_reference(const Config& config) {
  const std::optional<kernels::PreferenceRule> rule = preference_rule(config);
  return rule && kernels::has_reference(rule->loss);
}

}  // namespace ds
