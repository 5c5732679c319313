// The scheduler section: one of the five learning-rate schedules (formulas: optim/lr_schedule.h).
// Only the struct that belongs to `type` is read and written.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class SchedulerType : int {
  kLRRangeTest,
  kOneCycle,
  kWarmupLR,
  kWarmupDecayLR,
  kWarmupCosineLR
};
std::span<const EnumName> names_of(SchedulerType);
enum class WarmupType : int { kLog, kLinear };
std::span<const EnumName> names_of(WarmupType);

struct LrRangeTestParams {
  std::vector<double> lr_range_test_min_lr = {0.001};
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, LrRangeTestParams& c);

struct OneCycleParams {
  std::optional<std::vector<double>> cycle_min_lr;
  std::optional<std::vector<double>> cycle_max_lr;
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size;
  int64_t cycle_first_stair_count = 0;
  std::optional<int64_t> cycle_second_stair_count;
  int64_t decay_step_size = 0;
  double decay_lr_rate = 0.0;
  bool cycle_momentum = true;
  std::vector<double> cycle_min_mom = {0.8};
  std::vector<double> cycle_max_mom = {0.9};
  double decay_mom_rate = 0.0;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, OneCycleParams& c);

struct WarmupLrParams {
  std::vector<double> warmup_min_lr = {0.0};
  std::optional<std::vector<double>> warmup_max_lr;
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupLrParams& c);

struct WarmupDecayLrParams {
  std::optional<int64_t> total_num_steps;
  std::vector<double> warmup_min_lr = {0.0};
  std::vector<double> warmup_max_lr = {0.001};
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupDecayLrParams& c);

struct WarmupCosineLrParams {
  std::optional<int64_t> total_num_steps;
  double warmup_min_ratio = 0.0;
  int64_t warmup_num_steps = 1000;
  double cos_min_ratio = 0.0001;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupCosineLrParams& c);

struct SchedulerConfig {
  std::optional<SchedulerType> type;
  LrRangeTestParams lr_range_test;
  OneCycleParams one_cycle;
  WarmupLrParams warmup;
  WarmupDecayLrParams warmup_decay;
  WarmupCosineLrParams warmup_cosine;
};
void fields(Visitor& v, SchedulerConfig& c);

}  // namespace ds
