// What an optimizer step is (pure): everything about it that changes with its number, or with that
// of its update where steps were skipped, and is decided before it begins. Whatever is to change
// over a run next - sequence length, kept tokens, bits - becomes a member here and a line in
// settings_at(); nobody else looks at the number of a step to find out how to compute it. Refuses
// to know what a step finds out: loss, norm, clipping.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/values/rng.h"
#include "data/efficiency/curriculum.h"
#include "optim/lr_schedule.h"

namespace ds {

// What makes the work of a step's micro-batches another than that of other steps: places in memory
// and recorded work are made for each.
struct StepShape {
  int64_t length = 0;     // tokens per sample
  bool distills = false;  // a teacher is asked about them
  friend auto operator<=>(const StepShape&, const StepShape&) = default;
};

struct StepSettings {
  int64_t step = 1;    // 1 for the first
  int64_t update = 1;  // likewise, of the weights: steps that a loss scaler skipped had none
  double lr = 0;
  // What a schedule that drives the momentum says; nothing: the optimizer's own.
  std::optional<std::array<double, 2>> betas = std::nullopt;
  Rng dropout;  // the numbers of all its micro-steps
  StepShape shape{};
};

class StepRules {
 public:
  struct Options {
    double base_lr = 0;             // where there is no schedule
    SchedulerConfig schedule = {};  // without a type: none
    MomentumSupport momentum = MomentumSupport::kBetas;
    uint64_t seed = 0;
    int64_t length = 1;  // of samples, of which a step has the beginning where a curriculum says so
    std::optional<CurriculumOptions> lengths = std::nullopt;
    int64_t distilled = 0;  // the first so many steps ask a teacher
  };
  // ConfigError as make_lr_schedule throws it.
  explicit StepRules(const Options& options);

  // Any step may be asked for, in any order. Data and dropout go by the step, rates by the update.
  StepSettings settings_at(int64_t step, int64_t update) const;
  // Returns the settings of a step if no step was skipped.
  StepSettings settings_at(int64_t step) const { return settings_at(step, step); }
  // The shapes of steps 1 to `last`, each once, the largest first, with the first step that has it.
  struct FirstStep {
    StepShape shape;
    int64_t step = 1;
  };
  std::vector<FirstStep> shapes(int64_t last) const;

 private:
  StepShape shape_of(int64_t step) const;

  const double base_lr_;
  const Rng dropout_;
  std::unique_ptr<const LrSchedule> schedule_;  // null: base_lr always
  const int64_t length_;
  std::optional<const Curriculum> lengths_;  // nothing: length_ always
  const int64_t distilled_;
};

}  // namespace ds
