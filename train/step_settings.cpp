#include "train/step_settings.h"

#include "core/error.h"

namespace ds {

StepRules::StepRules(const Options& options)
    : base_lr_(options.base_lr), dropout_(options.seed, "dropout") {
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
          .dropout = dropout_.derive(static_cast<uint64_t>(step - 1))};
}

}  // namespace ds
