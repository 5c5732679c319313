// Learning-rate schedules (pure): LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR and WarmupCosineLR
// as functions of the index of the last finished scheduler step. The index is the only state, so a
// checkpoint keeps one integer. Nothing here reads JSON or touches an optimizer: the caller writes
// the rate where it belongs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

namespace ds {

enum class WarmupShape { kLog, kLinear };

// One value for every parameter group, or a list with one value for each of them.
using PerGroup = std::variant<double, std::vector<double>>;

// last_batch_iteration: index of the last finished step when resuming, -1 for a fresh start.

// lr(i) = min_lr * (1 + step_rate * u), u = (i + 1) / step_size, rounded down when `staircase`.
struct LrRangeTestOptions {
  PerGroup min_lr = 1e-3;
  int64_t step_size = 2000;
  double step_rate = 1.0;
  bool staircase = false;
  int64_t last_batch_iteration = -1;
};

// One triangle from min_lr to max_lr and back, momentum mirrored, then a decay phase (Smith 2018,
// arXiv:1803.09820). decay_step_size 0 or a rate of 0 leaves the value where the cycle ended.
struct OneCycleOptions {
  PerGroup min_lr = 0.0;
  PerGroup max_lr = 0.0;
  double first_step_size = 2000;
  std::optional<double> second_step_size = std::nullopt;  // absent: as the first half
  int64_t first_stair_count = 0;                          // 0: continuous
  std::optional<int64_t> second_stair_count = std::nullopt;
  double decay_step_size = 0;
  double decay_lr_rate = 0;
  double decay_mom_rate = 0;
  bool cycle_momentum = true;
  PerGroup min_mom = 0.8;
  PerGroup max_mom = 0.9;
  int64_t last_batch_iteration = -1;
};

// N = max(2, num_steps). lr(i) = min + (max - min) * gamma(i); gamma = ln(i + 1) / ln N or i / N
// while i < N, then 1.
struct WarmupOptions {
  PerGroup min_lr = 0.0;
  std::optional<PerGroup> max_lr = std::nullopt;  // absent: the optimizer's own rates
  int64_t num_steps = 1000;
  WarmupShape shape = WarmupShape::kLog;
  int64_t last_batch_iteration = -1;
};

// As WarmupOptions while i < N, then gamma = max(0, (T - i) / max(1, T - N)) with T =
// total_num_steps.
struct WarmupDecayOptions {
  double total_num_steps = 0;  // any number: 1e5, 20.5
  PerGroup min_lr = 0.0;
  std::optional<PerGroup> max_lr = 1e-3;
  int64_t num_steps = 1000;
  WarmupShape shape = WarmupShape::kLog;
  int64_t last_batch_iteration = -1;
};

// lr(i) = base * ratio(i). Warm-up: ratio from min_ratio to 1 with the shape above; then with
// x = min(1, (i - N + 1) / max(1, T - N)): ratio = max(0, c + (1 - c) * (1 + cos(pi x)) / 2), c =
// cos_min_ratio.
struct WarmupCosineOptions {
  double total_num_steps = 0;
  double min_ratio = 0.0;
  int64_t num_steps = 1000;
  double cos_min_ratio = 1e-4;
  WarmupShape shape = WarmupShape::kLog;
  int64_t last_batch_iteration = -1;
};

using LrScheduleOptions = std::variant<LrRangeTestOptions, OneCycleOptions, WarmupOptions,
                                       WarmupDecayOptions, WarmupCosineOptions>;

// DeepSpeed's OneCycle sets both betas, and the second to this.
inline constexpr double kCycledBeta2 = 0.99;

class LrSchedule {
 public:
  virtual ~LrSchedule() = default;

  // Rate of a parameter group after scheduler step `index` (from 0); any index may be asked in any
  // order.
  virtual double lr_at(int64_t index, size_t group = 0) const = 0;

  // First-moment coefficient after scheduler step `index`; nothing when the schedule does not drive
  // momentum.
  virtual std::optional<double> momentum_at(int64_t index, size_t group = 0) const;

  // Rate in force before the first scheduler step: the schedule's start, or the optimizer's own
  // rate when the options said that earlier steps are finished.
  double initial_lr(size_t group = 0) const;

  // Rate and momentum that optimizer update number n (from 1, updates skipped by overflow not
  // counted) runs with: the initial value for n = 1, then the value of index n - 2 (counted on from
  // last_batch_iteration where that was given), because the schedule steps after the update.
  double lr_for_update(int64_t n, size_t group = 0) const;
  std::optional<double> momentum_for_update(int64_t n, size_t group = 0) const;
  // Both betas of an Adam or Lion whose momentum the schedule drives: the second is kCycledBeta2
  // then, whatever the optimizer was given.
  std::optional<std::array<double, 2>> betas_for_update(int64_t n, size_t group = 0) const;

  // The state: index of the last finished step, -1 before the first.
  int64_t last_index() const { return last_index_; }
  void step() { ++last_index_; }
  void restore(int64_t last_index) { last_index_ = last_index; }
  double current_lr(size_t group = 0) const;
  std::optional<double> current_momentum(size_t group = 0) const;

  size_t group_count() const { return base_lr_.size(); }

 protected:
  LrSchedule(std::span<const double> base_lr, int64_t last_index);
  double base_lr(size_t group) const;

 private:
  virtual double start_lr(size_t group) const = 0;
  virtual std::optional<double> start_momentum(size_t group) const;

  std::vector<double> base_lr_;
  int64_t first_index_;
  int64_t last_index_;
};

// Whether the optimizer has a first-moment coefficient for OneCycle to drive.
enum class MomentumSupport { kBetas, kNone };

// Builds a schedule for the parameter groups whose optimizer rates are `base_lr` (one entry per
// group). Throws ConfigError for step counts that are not positive and for lists that do not have
// one entry per group.
std::unique_ptr<LrSchedule> make_lr_schedule(const LrScheduleOptions& options,
                                             std::span<const double> base_lr,
                                             MomentumSupport momentum = MomentumSupport::kBetas);

// DeepSpeed's name of a schedule ("WarmupLR", ...).
std::string_view schedule_name(const LrScheduleOptions& options);

}  // namespace ds
