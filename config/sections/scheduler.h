// The scheduler section: one of the five learning-rate schedules, which optim/lr_schedule makes of
// these structs as they are. Only the struct that belongs to `type` is read and written. Rates and
// momenta are lists: one value for each parameter group, or one for all of them. No reader is
// included here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ds {

class Visitor;
struct EnumName;

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

// last_batch_iteration: index of the last finished step when resuming, -1 for a fresh start.

// lr(i) = min_lr * (1 + step_rate * u), u = (i + 1) / step_size, rounded down when `staircase`.
struct LrRangeTestParams {
  std::vector<double> lr_range_test_min_lr = {0.001};
  int64_t lr_range_test_step_size = 2000;
  double lr_range_test_step_rate = 1.0;
  bool lr_range_test_staircase = false;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, LrRangeTestParams& c);

// One triangle from min_lr to max_lr and back, momentum mirrored, then a decay phase (Smith 2018,
// arXiv:1803.09820). decay_step_size 0 or a rate of 0 leaves the value where the cycle ended.
struct OneCycleParams {
  std::optional<std::vector<double>> cycle_min_lr = {};
  std::optional<std::vector<double>> cycle_max_lr = {};
  int64_t cycle_first_step_size = 2000;
  std::optional<int64_t> cycle_second_step_size = {};  // absent: as the first half
  int64_t cycle_first_stair_count = 0;                 // 0: continuous
  std::optional<int64_t> cycle_second_stair_count = {};
  int64_t decay_step_size = 0;
  double decay_lr_rate = 0.0;
  bool cycle_momentum = true;
  std::vector<double> cycle_min_mom = {0.8};
  std::vector<double> cycle_max_mom = {0.9};
  double decay_mom_rate = 0.0;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, OneCycleParams& c);

// N = max(2, num_steps). lr(i) = min + (max - min) * gamma(i); gamma = ln(i + 1) / ln N or i / N
// while i < N, then 1.
struct WarmupLrParams {
  std::vector<double> warmup_min_lr = {0.0};
  std::optional<std::vector<double>> warmup_max_lr = {};  // absent: the optimizer's own rates
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupLrParams& c);

// As WarmupLrParams while i < N, then gamma = max(0, (T - i) / max(1, T - N)) with T =
// total_num_steps.
struct WarmupDecayLrParams {
  std::optional<int64_t> total_num_steps = {};  // absent: train.steps
  std::vector<double> warmup_min_lr = {0.0};
  std::vector<double> warmup_max_lr = {0.001};
  int64_t warmup_num_steps = 1000;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupDecayLrParams& c);

// lr(i) = base * ratio(i). Warm-up: ratio from min_ratio to 1 with the shape above; then with
// x = min(1, (i - N + 1) / max(1, T - N)): ratio = max(0, c + (1 - c) * (1 + cos(pi x)) / 2), c =
// cos_min_ratio.
struct WarmupCosineLrParams {
  std::optional<int64_t> total_num_steps = {};  // absent: train.steps
  double warmup_min_ratio = 0.0;
  int64_t warmup_num_steps = 1000;
  double cos_min_ratio = 0.0001;
  WarmupType warmup_type = WarmupType::kLog;
  int64_t last_batch_iteration = -1;
};
void fields(Visitor& v, WarmupCosineLrParams& c);

struct SchedulerConfig {
  std::optional<SchedulerType> type = {};
  LrRangeTestParams lr_range_test = {};
  OneCycleParams one_cycle = {};
  WarmupLrParams warmup = {};
  WarmupDecayLrParams warmup_decay = {};
  WarmupCosineLrParams warmup_cosine = {};
};
void fields(Visitor& v, SchedulerConfig& c);

}  // namespace ds
