// Rules of preference training: what a loss of pairs needs, and what it cannot go with.
#include <fmt/format.h>

#include "config/rules.h"

namespace ds::detail {

namespace {

void loss_rules(const RuleContext& r, const PreferenceConfig& c) {
  const std::string key = "preference.label_smoothing";
  if (c.loss_type == PreferenceLossType::kExoPair && c.label_smoothing == 0) {
    r.refuse_early(key, "is 0, of which loss_type exo_pair takes the logarithm; give, say, 0.001");
  }
  if (c.loss_type == PreferenceLossType::kRobust && c.label_smoothing >= 0.5) {
    r.refuse_early(key, fmt::format("{}, expected less than 0.5 with loss_type robust: with more, "
                                    "pairs are the wrong way round",
                                    c.label_smoothing));
  }
  if (!smooths_labels(c.loss_type) && c.label_smoothing != 0) {
    r.refuse_early(key, fmt::format("is for loss_type robust, exo_pair, cpo and simpo, and that is "
                                    "{}; take one of them, or remove this",
                                    enum_name(c.loss_type)));
  }
  if (c.loss_type != PreferenceLossType::kDiscopop &&
      c.discopop_tau != PreferenceConfig().discopop_tau) {
    r.refuse_early("preference.discopop_tau",
                   fmt::format("is for loss_type discopop, and that is {}; remove it",
                               enum_name(c.loss_type)));
  }
}

void reference_rules(const RuleContext& r, const PreferenceConfig& c) {
  if (!c.reference) return;
  const std::string key = "preference.reference";
  if (!has_reference(c.loss_type)) {
    r.refuse_early(key, fmt::format("excludes loss_type {}, which asks no reference; remove it, or "
                                    "take another loss",
                                    enum_name(c.loss_type)));
  } else if (r.config.lora) {
    r.refuse_early(key,
                   "excludes lora, whose reference is the model without what its adapters learn; "
                   "remove it");
  }
}

}  // namespace

void preference_rules(const RuleContext& r) {
  const Config& c = r.config;
  const SupervisedData& data = c.data.supervised;
  if (!data.has_pairs()) {
    if (c.preference) {
      r.refuse_early("preference",
                     fmt::format("is for data.format preference, and that is {}; give that, or "
                                 "remove this",
                                 enum_name(data.format)));
    }
    return;
  }
  const PreferenceConfig preference = c.preference.value_or(PreferenceConfig());
  loss_rules(r, preference);
  reference_rules(r, preference);
  if (data.packing) {
    r.refuse_early("data.packing",
                   "excludes data.format preference: a pair has a sample of its own, and both "
                   "answers share it; remove one of them");
  }
  if (data.too_long == TooLong::kSplit) {
    r.refuse_early("data.too_long",
                   "split: half of an answer is neither better nor worse than another; take "
                   "truncate or drop");
  }
  if (c.train.resume_from && has_reference(preference.loss_type)) {
    r.refuse_early("train.resume_from",
                   "excludes data.format preference: the reference is the model before training, "
                   "which a checkpoint of DeepSpeed does not hold; take its weights as "
                   "model.folder (dslaunch convert)");
  }
}

}  // namespace ds::detail
