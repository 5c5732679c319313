// The five schedules. Each evaluates its formula in the order of operations that the reference
// uses, because floor() of a quotient (staircases) would otherwise land on the other side of a
// step.
#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/error.h"

namespace ds {

namespace {

std::vector<double> per_group(const PerGroup& value, size_t groups, std::string_view name) {
  if (const double* all = std::get_if<double>(&value)) return std::vector<double>(groups, *all);
  const std::vector<double>& list = std::get<std::vector<double>>(value);
  if (list.size() == groups) return list;
  throw ConfigError(fmt::format(
      "scheduler: {} is a list of {} values, expected one for each of the {} parameter groups",
      name, list.size(), groups));
}

void require_positive(double value, std::string_view name) {
  if (!(value > 0))
    throw ConfigError(fmt::format("scheduler: {} is {}, expected more than 0", name, value));
}

class LrRangeTest final : public LrSchedule {
 public:
  LrRangeTest(const LrRangeTestOptions& options, std::span<const double> base_lr)
      : LrSchedule(base_lr, options.last_batch_iteration),
        options_(options),
        min_lr_(per_group(options.min_lr, base_lr.size(), "lr_range_test_min_lr")) {
    require_positive(static_cast<double>(options.step_size), "lr_range_test_step_size");
  }

  double lr_at(int64_t index, size_t group) const override {
    double interval = static_cast<double>(index + 1) / static_cast<double>(options_.step_size);
    if (options_.staircase) interval = std::floor(interval);
    return min_lr_.at(group) * (1 + options_.step_rate * interval);
  }

 private:
  double start_lr(size_t group) const override { return min_lr_.at(group); }

  LrRangeTestOptions options_;
  std::vector<double> min_lr_;
};

class OneCycle final : public LrSchedule {
 public:
  OneCycle(const OneCycleOptions& options, std::span<const double> base_lr,
           MomentumSupport momentum)
      : LrSchedule(base_lr, options.last_batch_iteration),
        options_(options),
        second_size_(options.second_step_size.value_or(options.first_step_size)),
        second_stairs_(options.second_stair_count.value_or(options.first_stair_count)) {
    require_positive(options.first_step_size, "cycle_first_step_size");
    if (!(second_size_ >= 0)) {
      throw ConfigError(
          fmt::format("scheduler: cycle_second_step_size is {}, expected 0 or more", second_size_));
    }
    total_size_ = options.first_step_size + second_size_;
    step_ratio_ = options.first_step_size / total_size_;
    const size_t groups = base_lr.size();
    min_lr_ = per_group(options.min_lr, groups, "cycle_min_lr");
    max_lr_ = per_group(options.max_lr, groups, "cycle_max_lr");
    options_.cycle_momentum = options.cycle_momentum && momentum == MomentumSupport::kBetas;
    if (options_.cycle_momentum) {
      min_mom_ = per_group(options.min_mom, groups, "cycle_min_mom");
      max_mom_ = per_group(options.max_mom, groups, "cycle_max_mom");
    }
  }

  double lr_at(int64_t index, size_t group) const override {
    const double low = min_lr_.at(group);
    if (in_cycle(index)) return low + (max_lr_.at(group) - low) * scale(index);
    if (options_.decay_step_size == 0 || options_.decay_lr_rate == 0) return low;
    return low / (1 + options_.decay_lr_rate * decay_interval(index));
  }

  std::optional<double> momentum_at(int64_t index, size_t group) const override {
    if (!options_.cycle_momentum) return std::nullopt;
    const double high = max_mom_.at(group);
    if (in_cycle(index)) return high - (high - min_mom_.at(group)) * scale(index);
    if (options_.decay_step_size == 0 || options_.decay_mom_rate == 0) return high;
    return high * (1 + options_.decay_mom_rate * decay_interval(index));
  }

 private:
  double start_lr(size_t group) const override { return min_lr_.at(group); }

  std::optional<double> start_momentum(size_t group) const override {
    if (!options_.cycle_momentum) return std::nullopt;
    return min_mom_.at(group);
  }

  bool in_cycle(int64_t index) const { return static_cast<double>(index) < total_size_; }

  double decay_interval(int64_t index) const {
    return (static_cast<double>(index) - total_size_ + 1) / options_.decay_step_size;
  }

  // Height in the triangle, 0 at min_lr and 1 at max_lr.
  double scale(int64_t index) const {
    const double position = static_cast<double>(index + 1);
    const double cycle = std::floor(1 + position / total_size_);
    const double x = 1.0 + position / total_size_ - cycle;
    const bool rising = x <= step_ratio_;
    const int64_t stairs = rising ? options_.first_stair_count : second_stairs_;
    if (stairs <= 0) return rising ? x / step_ratio_ : (x - 1) / (step_ratio_ - 1);
    const double count = static_cast<double>(stairs);
    const double within = std::fmod(position, total_size_);
    const double stair = within <= options_.first_step_size
                             ? within * count / options_.first_step_size
                             : (total_size_ - within) * count / second_size_;
    return std::floor(stair) / count;
  }

  OneCycleOptions options_;
  double second_size_;
  int64_t second_stairs_;
  double total_size_ = 0;
  double step_ratio_ = 1;
  std::vector<double> min_lr_, max_lr_, min_mom_, max_mom_;
};

// The rising part that the three warm-up schedules share: 0 at index 0, 1 at index N - 1 (log) or N
// (linear).
class Warmup {
 public:
  Warmup(int64_t num_steps, WarmupShape shape)
      : steps_(std::max<int64_t>(2, num_steps)), shape_(shape) {
    require_positive(static_cast<double>(num_steps), "warmup_num_steps");
    inverse_log_ = 1.0 / std::log(static_cast<double>(steps_));
  }
  int64_t steps() const { return steps_; }
  bool covers(int64_t index) const { return index < steps_; }
  double fraction(int64_t index) const {
    if (shape_ == WarmupShape::kLinear)
      return static_cast<double>(index) / static_cast<double>(steps_);
    return inverse_log_ * std::log(static_cast<double>(index + 1));
  }

 private:
  int64_t steps_;
  WarmupShape shape_;
  double inverse_log_ = 1;
};

// What follows the warm-up of WarmupLR and WarmupDecayLR.
class WarmupLr : public LrSchedule {
 public:
  WarmupLr(const WarmupOptions& options, std::span<const double> base_lr)
      : LrSchedule(base_lr, options.last_batch_iteration),
        warmup_(options.num_steps, options.shape),
        min_lr_(per_group(options.min_lr, base_lr.size(), "warmup_min_lr")),
        max_lr_(options.max_lr ? per_group(*options.max_lr, base_lr.size(), "warmup_max_lr")
                               : std::vector<double>(base_lr.begin(), base_lr.end())) {}

  double lr_at(int64_t index, size_t group) const override {
    const double gamma = warmup_.covers(index) ? warmup_.fraction(index) : after_warmup(index);
    return min_lr_.at(group) + (max_lr_.at(group) - min_lr_.at(group)) * gamma;
  }

 protected:
  const Warmup& warmup() const { return warmup_; }

 private:
  virtual double after_warmup(int64_t) const { return 1.0; }
  double start_lr(size_t group) const override { return min_lr_.at(group); }

  Warmup warmup_;
  std::vector<double> min_lr_, max_lr_;
};

class WarmupDecayLr final : public WarmupLr {
 public:
  WarmupDecayLr(const WarmupDecayOptions& options, std::span<const double> base_lr)
      : WarmupLr({options.min_lr, options.max_lr, options.num_steps, options.shape,
                  options.last_batch_iteration},
                 base_lr),
        total_(options.total_num_steps) {}

 private:
  double after_warmup(int64_t index) const override {
    const double span = std::max(1.0, total_ - static_cast<double>(warmup().steps()));
    return std::max(0.0, (total_ - static_cast<double>(index)) / span);
  }

  double total_;
};

class WarmupCosineLr final : public LrSchedule {
 public:
  WarmupCosineLr(const WarmupCosineOptions& options, std::span<const double> base)
      : LrSchedule(base, options.last_batch_iteration),
        options_(options),
        warmup_(options.num_steps, options.shape) {}

  double lr_at(int64_t index, size_t group) const override { return base_lr(group) * ratio(index); }

 private:
  double start_lr(size_t) const override { return 0.0; }

  double ratio(int64_t index) const {
    if (warmup_.covers(index))
      return options_.min_ratio + warmup_.fraction(index) * (1.0 - options_.min_ratio);
    const double done = static_cast<double>(index - warmup_.steps() + 1);
    const double span =
        std::max(1.0, options_.total_num_steps - static_cast<double>(warmup_.steps()));
    const double x = std::min(1.0, done / span);
    const double delta = 1.0 - options_.cos_min_ratio;
    return std::max(0.0, options_.cos_min_ratio + delta * (1 + std::cos(std::numbers::pi * x)) / 2);
  }

  WarmupCosineOptions options_;
  Warmup warmup_;
};

}  // namespace

LrSchedule::LrSchedule(std::span<const double> base_lr, int64_t last_index)
    : base_lr_(base_lr.begin(), base_lr.end()), first_index_(last_index), last_index_(last_index) {
  DS_CHECK(!base_lr.empty(), "lr schedule: no parameter group given, expected at least one");
}

double LrSchedule::base_lr(size_t group) const { return base_lr_.at(group); }

std::optional<double> LrSchedule::momentum_at(int64_t, size_t) const { return std::nullopt; }

std::optional<double> LrSchedule::start_momentum(size_t) const { return std::nullopt; }

double LrSchedule::initial_lr(size_t group) const {
  return first_index_ == -1 ? start_lr(group) : base_lr_.at(group);
}

double LrSchedule::lr_for_update(int64_t n, size_t group) const {
  DS_CHECK(n >= 1, "lr schedule: update number is {}, expected 1 or more", n);
  return n == 1 ? initial_lr(group) : lr_at(first_index_ + n - 1, group);
}

std::optional<std::array<double, 2>> LrSchedule::betas_for_update(int64_t n, size_t group) const {
  const std::optional<double> momentum = momentum_for_update(n, group);
  if (!momentum) return std::nullopt;
  return std::array{*momentum, kCycledBeta2};
}

std::optional<double> LrSchedule::momentum_for_update(int64_t n, size_t group) const {
  DS_CHECK(n >= 1, "lr schedule: update number is {}, expected 1 or more", n);
  return n == 1 ? start_momentum(group) : momentum_at(first_index_ + n - 1, group);
}

double LrSchedule::current_lr(size_t group) const {
  return last_index_ < 0 ? initial_lr(group) : lr_at(last_index_, group);
}

std::optional<double> LrSchedule::current_momentum(size_t group) const {
  return last_index_ < 0 ? start_momentum(group) : momentum_at(last_index_, group);
}

std::unique_ptr<LrSchedule> make_lr_schedule(const LrScheduleOptions& options,
                                             std::span<const double> base_lr,
                                             MomentumSupport momentum) {
  struct Maker {
    std::span<const double> base_lr;
    MomentumSupport momentum;
    using Made = std::unique_ptr<LrSchedule>;
    Made operator()(const LrRangeTestOptions& o) const {
      return std::make_unique<LrRangeTest>(o, base_lr);
    }
    Made operator()(const OneCycleOptions& o) const {
      return std::make_unique<OneCycle>(o, base_lr, momentum);
    }
    Made operator()(const WarmupOptions& o) const { return std::make_unique<WarmupLr>(o, base_lr); }
    Made operator()(const WarmupDecayOptions& o) const {
      return std::make_unique<WarmupDecayLr>(o, base_lr);
    }
    Made operator()(const WarmupCosineOptions& o) const {
      return std::make_unique<WarmupCosineLr>(o, base_lr);
    }
  };
  return std::visit(Maker{base_lr, momentum}, options);
}

std::string_view schedule_name(const LrScheduleOptions& options) {
  constexpr std::string_view kNames[] = {"LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR",
                                         "WarmupCosineLR"};
  return kNames[options.index()];
}

}  // namespace ds
