// Learning-rate schedules (pure): LRRangeTest, OneCycle, WarmupLR, WarmupDecayLR and WarmupCosineLR
// as functions of the index of the last finished scheduler step. The index is the only state, so a
// checkpoint keeps one integer. The formulas stand beside the parameters, in
// config/sections/scheduler.h. Nothing here reads JSON or touches an optimizer: the caller writes
// the rate where it belongs.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "config/sections/scheduler.h"

namespace ds {

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

// Builds the schedule of `config.type`, which must be given, for the parameter groups whose
// optimizer rates are `base_lr` (one entry per group). Throws ConfigError for step counts that are
// not positive, for parameters that are needed and absent, and for lists that have neither one
// entry nor one per group.
std::unique_ptr<LrSchedule> make_lr_schedule(const SchedulerConfig& config,
                                             std::span<const double> base_lr,
                                             MomentumSupport momentum = MomentumSupport::kBetas);

}  // namespace ds
