#include "config/sections/scheduler.h"

#include "config/reader/fields.h"

namespace ds {

std::span<const EnumName> names_of(SchedulerType) {
  static constexpr EnumName kNames[] = {
      {"LRRangeTest", static_cast<int>(SchedulerType::kLRRangeTest)},
      {"OneCycle", static_cast<int>(SchedulerType::kOneCycle)},
      {"WarmupLR", static_cast<int>(SchedulerType::kWarmupLR)},
      {"WarmupDecayLR", static_cast<int>(SchedulerType::kWarmupDecayLR)},
      {"WarmupCosineLR", static_cast<int>(SchedulerType::kWarmupCosineLR)},
  };
  return kNames;
}

std::span<const EnumName> names_of(WarmupType) {
  static constexpr EnumName kNames[] = {
      {"log", static_cast<int>(WarmupType::kLog)},
      {"linear", static_cast<int>(WarmupType::kLinear)},
  };
  return kNames;
}

namespace {

void warmup_steps(Visitor& v, int64_t& warmup_num_steps) {
  v.field(
      "warmup_num_steps", warmup_num_steps,
      {.meaning = "Steps of the warm-up; fewer than 2 are 2.", .effect = Effect::kUsed, .min = 0});
}

void warmup_shape(Visitor& v, WarmupType& warmup_type) {
  v.field("warmup_type", warmup_type,
          {.meaning = "Shape of the warm-up.", .effect = Effect::kUsed});
}

void last_step(Visitor& v, int64_t& last_batch_iteration) {
  v.field("last_batch_iteration", last_batch_iteration,
          {.meaning = "Index of the last finished step when resuming; -1 starts afresh and writes "
                      "the initial learning rate.",
           .effect = Effect::kUsed,
           .min = -1});
}

}  // namespace

void fields(Visitor& v, LrRangeTestParams& c) {
  v.field("lr_range_test_min_lr", c.lr_range_test_min_lr,
          {.meaning = "Learning rate at the start of the test.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("lr_range_test_step_size", c.lr_range_test_step_size,
          {.meaning = "Number of steps per unit of growth.", .effect = Effect::kUsed, .above = 0});
  v.field("lr_range_test_step_rate", c.lr_range_test_step_rate,
          {.meaning = "Growth per unit: lr = min_lr*(1+rate*interval).", .effect = Effect::kUsed});
  v.field("lr_range_test_staircase", c.lr_range_test_staircase,
          {.meaning = "true: change only every step_size steps; false: change at every step.",
           .effect = Effect::kUsed});
  last_step(v, c.last_batch_iteration);
}

void fields(Visitor& v, OneCycleParams& c) {
  v.field("cycle_min_lr", c.cycle_min_lr,
          {.meaning = "Lower learning rate: start, end and base of the decay phase.",
           .effect = Effect::kUsed,
           .one_or_list = true,
           .required = true});
  v.field("cycle_max_lr", c.cycle_max_lr,
          {.meaning = "Learning rate at the peak.",
           .effect = Effect::kUsed,
           .one_or_list = true,
           .required = true});
  v.field("cycle_first_step_size", c.cycle_first_step_size,
          {.meaning = "Steps of the rising half.", .effect = Effect::kUsed, .above = 0});
  v.field("cycle_second_step_size", c.cycle_second_step_size,
          {.meaning = "Steps of the falling half; null means equal to the first half.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("cycle_first_stair_count", c.cycle_first_stair_count,
          {.meaning = "Number of stairs in the rising half; 0 means continuous.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field("cycle_second_stair_count", c.cycle_second_stair_count,
          {.meaning = "Number of stairs in the falling half; null copies the first half's count.",
           .effect = Effect::kUsed,
           .min = 0});
  v.field(
      "decay_step_size", c.decay_step_size,
      {.meaning =
           "Steps per unit of the decay phase; 0 disables the decay of learning rate and momentum.",
       .effect = Effect::kUsed,
       .min = 0});
  v.field("decay_lr_rate", c.decay_lr_rate,
          {.meaning = "Decay per unit after the cycle: lr = min_lr/(1+rate*t/step_size).",
           .effect = Effect::kUsed});
  v.field("cycle_momentum", c.cycle_momentum,
          {.meaning = "Also cycle beta1, inversely to the learning rate; beta2 is 0.99 then, as in "
                      "DeepSpeed.",
           .effect = Effect::kUsed});
  v.field("cycle_min_mom", c.cycle_min_mom,
          {.meaning = "Momentum at the learning-rate peak.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("cycle_max_mom", c.cycle_max_mom,
          {.meaning = "Momentum at the cycle ends.", .effect = Effect::kUsed, .one_or_list = true});
  v.field("decay_mom_rate", c.decay_mom_rate,
          {.meaning = "Growth of beta1 per unit in the decay phase: max_mom*(1+rate*t/step_size).",
           .effect = Effect::kUsed});
  last_step(v, c.last_batch_iteration);
}

void fields(Visitor& v, WarmupLrParams& c) {
  v.field("warmup_min_lr", c.warmup_min_lr,
          {.meaning = "Learning rate at the start of the warm-up.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("warmup_max_lr", c.warmup_max_lr,
          {.meaning = "Learning rate reached at the end of the warm-up and kept afterwards; null "
                      "takes the optimizer's own learning rate.",
           .effect = Effect::kUsed,
           .one_or_list = true,
           .unset_meaning = "the learning rate of the optimizer"});
  warmup_steps(v, c.warmup_num_steps);
  warmup_shape(v, c.warmup_type);
  last_step(v, c.last_batch_iteration);
}

void fields(Visitor& v, WarmupDecayLrParams& c) {
  v.field("total_num_steps", c.total_num_steps,
          {.meaning = "Step at which the linear decay reaches warmup_min_lr.",
           .effect = Effect::kUsed,
           .above = 0,
           .unset_meaning = "train.steps"});
  v.field("warmup_min_lr", c.warmup_min_lr,
          {.meaning = "Start of the warm-up and end of the decay.",
           .effect = Effect::kUsed,
           .one_or_list = true});
  v.field("warmup_max_lr", c.warmup_max_lr,
          {.meaning = "Peak learning rate.", .effect = Effect::kUsed, .one_or_list = true});
  warmup_steps(v, c.warmup_num_steps);
  warmup_shape(v, c.warmup_type);
  last_step(v, c.last_batch_iteration);
}

void fields(Visitor& v, WarmupCosineLrParams& c) {
  v.field("total_num_steps", c.total_num_steps,
          {.meaning = "Step at which the cosine decay ends.",
           .effect = Effect::kUsed,
           .above = 0,
           .unset_meaning = "train.steps"});
  v.field("warmup_min_ratio", c.warmup_min_ratio,
          {.meaning = "Fraction of the optimizer's lr at warm-up step 0.",
           .effect = Effect::kUsed,
           .min = 0});
  warmup_steps(v, c.warmup_num_steps);
  v.field("cos_min_ratio", c.cos_min_ratio,
          {.meaning = "Fraction of the optimizer's lr at the end of the decay.",
           .effect = Effect::kUsed,
           .min = 0});
  warmup_shape(v, c.warmup_type);
  last_step(v, c.last_batch_iteration);
}

void fields(Visitor& v, SchedulerConfig& c) {
  v.field("type", c.type, {.meaning = "Schedule name.", .effect = Effect::kUsed});
  const auto params_of = [&](SchedulerType type, std::string_view condition, auto& params) {
    v.when(c.type == type, condition,
           [&] { v.section("params", params, {.meaning = "Keyword arguments of the schedule."}); });
  };
  params_of(SchedulerType::kLRRangeTest, "type is LRRangeTest", c.lr_range_test);
  params_of(SchedulerType::kOneCycle, "type is OneCycle", c.one_cycle);
  params_of(SchedulerType::kWarmupLR, "type is WarmupLR", c.warmup);
  params_of(SchedulerType::kWarmupDecayLR, "type is WarmupDecayLR", c.warmup_decay);
  params_of(SchedulerType::kWarmupCosineLR, "type is WarmupCosineLR", c.warmup_cosine);
}

}  // namespace ds
