#include "train/settings/step_settings.h"

#include <algorithm>
#include <map>

#include "core/status/error.h"

namespace ds {

StepRules::StepRules(const Options& options)
    : base_lr_(options.base_lr),
      dropout_(options.seed, "dropout"),
      length_(options.length),
      distilled_(options.distilled) {
  if (options.lengths) lengths_.emplace(*options.lengths);
  if (!options.schedule.type) return;
  const std::array<double, 1> base{base_lr_};
  schedule_ = make_lr_schedule(options.schedule, base, options.momentum);
}

StepSettings StepRules::settings_at(int64_t step, int64_t update) const {
  DS_CHECK(step >= 1 && update >= 1, "settings of step {} with update {}, expected 1 or more", step,
           update);
  return {.step = step,
          .update = update,
          .lr = schedule_ ? schedule_->lr_for_update(update) : base_lr_,
          .betas = schedule_ ? schedule_->betas_for_update(update) : std::nullopt,
          .dropout = dropout_.derive(static_cast<uint64_t>(step - 1)),
          .shape = shape_of(step)};
}

// A difficulty below 1 is what rounding to multiples makes of a small minimum.
StepShape StepRules::shape_of(int64_t step) const {
  const int64_t length =
      lengths_ ? std::clamp<int64_t>(lengths_->of_step(step), 1, length_) : length_;
  return {.length = length, .distills = step <= distilled_};
}

std::vector<StepRules::FirstStep> StepRules::shapes(int64_t last) const {
  std::map<StepShape, int64_t> first;
  std::vector<int64_t> changes = lengths_ ? lengths_->changes(last) : std::vector<int64_t>{1};
  if (distilled_ >= 1 && distilled_ < last) changes.push_back(distilled_ + 1);
  std::ranges::sort(changes);
  for (const int64_t step : changes) first.emplace(shape_of(step), step);
  std::vector<FirstStep> shapes;
  for (auto it = first.rbegin(); it != first.rend(); ++it)
    shapes.push_back({it->first, it->second});
  return shapes;
}

}  // namespace ds
