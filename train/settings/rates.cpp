#include "train/settings/rates.h"

#include "optim/rule_optimizer.h"

namespace ds {

SchedulerConfig schedule_of(const Config& config) {
  SchedulerConfig schedule = config.scheduler;
  // A decay without an end of its own ends with the run.
  for (auto* total :
       {&schedule.warmup_decay.total_num_steps, &schedule.warmup_cosine.total_num_steps}) {
    if (!*total) *total = config.train.steps;
  }
  // None is what DeepSpeed's older releases took for the fewest.
  for (int64_t* warmup :
       {&schedule.warmup.warmup_num_steps, &schedule.warmup_decay.warmup_num_steps,
        &schedule.warmup_cosine.warmup_num_steps}) {
    if (*warmup == 0) *warmup = 1;
  }
  return schedule;
}

StepSettings settings_of_update(const Config& config, int64_t update) {
  const StepRules rules({.base_lr = learning_rate(config.optimizer),
                         .schedule = schedule_of(config),
                         .momentum = make_optimizer(config.optimizer)->momentum_support()});
  return rules.settings_at(update);
}

}  // namespace ds
