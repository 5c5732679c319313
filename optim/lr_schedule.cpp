// The five schedules. Each evaluates its formula in the order of operations that the reference
// uses, because floor() of a quotient (staircases) would otherwise land on the other side of a
// step.
#include "optim/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "core/status/error.h"

namespace ds {

namespace {

std::vector<double> per_group(const std::vector<double>& list, size_t groups,
                              std::string_view name) {
  if (list.size() == groups) return list;
  if (list.size() == 1) return std::vector<double>(groups, list.front());
  throw ConfigError(fmt::format(
      "scheduler: {} is a list of {} values, expected one, or one for each of the {} parameter "
      "groups",
      name, list.size(), groups));
}

template <class T>
const T& required(const std::optional<T>& value, std::string_view name) {
  if (!value) throw ConfigError(fmt::format("scheduler.params.{}: is needed", name));
  return *value;
}

void require_positive(int64_t value, std::string_view name) {
  if (!(value > 0))
    throw ConfigError(fmt::format("scheduler: {} is {}, expected more than 0", name, value));
}

class LrRangeTest final : public LrSchedule {
 public:
  LrRangeTest(const LrRangeTestParams& params, std::span<const double> base_lr)
      : LrSchedule(base_lr, params.last_batch_iteration),
        params_(params),
        min_lr_(per_group(params.lr_range_test_min_lr, base_lr.size(), "lr_range_test_min_lr")) {
    require_positive(params.lr_range_test_step_size, "lr_range_test_step_size");
  }

  double lr_at(int64_t index, size_t group) const override {
    double interval =
        static_cast<double>(index + 1) / static_cast<double>(params_.lr_range_test_step_size);
    if (params_.lr_range_test_staircase) interval = std::floor(interval);
    return min_lr_.at(group) * (1 + params_.lr_range_test_step_rate * interval);
  }

 private:
  double start_lr(size_t group) const override { return min_lr_.at(group); }

  LrRangeTestParams params_;
  std::vector<double> min_lr_;
};

class OneCycle final : public LrSchedule {
 public:
  OneCycle(const OneCycleParams& params, std::span<const double> base_lr, MomentumSupport momentum)
      : LrSchedule(base_lr, params.last_batch_iteration),
        params_(params),
        first_size_(static_cast<double>(params.cycle_first_step_size)),
        second_size_(static_cast<double>(
            params.cycle_second_step_size.value_or(params.cycle_first_step_size))),
        second_stairs_(params.cycle_second_stair_count.value_or(params.cycle_first_stair_count)) {
    require_positive(params.cycle_first_step_size, "cycle_first_step_size");
    if (second_size_ < 0) {
      throw ConfigError(
          fmt::format("scheduler: cycle_second_step_size is {}, expected 0 or more", second_size_));
    }
    total_size_ = first_size_ + second_size_;
    step_ratio_ = first_size_ / total_size_;
    const size_t groups = base_lr.size();
    min_lr_ = per_group(required(params.cycle_min_lr, "cycle_min_lr"), groups, "cycle_min_lr");
    max_lr_ = per_group(required(params.cycle_max_lr, "cycle_max_lr"), groups, "cycle_max_lr");
    params_.cycle_momentum = params.cycle_momentum && momentum == MomentumSupport::kBetas;
    if (params_.cycle_momentum) {
      min_mom_ = per_group(params.cycle_min_mom, groups, "cycle_min_mom");
      max_mom_ = per_group(params.cycle_max_mom, groups, "cycle_max_mom");
    }
  }

  double lr_at(int64_t index, size_t group) const override {
    const double low = min_lr_.at(group);
    if (in_cycle(index)) return low + (max_lr_.at(group) - low) * scale(index);
    if (params_.decay_step_size == 0 || params_.decay_lr_rate == 0) return low;
    return low / (1 + params_.decay_lr_rate * decay_interval(index));
  }

  std::optional<double> momentum_at(int64_t index, size_t group) const override {
    if (!params_.cycle_momentum) return std::nullopt;
    const double high = max_mom_.at(group);
    if (in_cycle(index)) return high - (high - min_mom_.at(group)) * scale(index);
    if (params_.decay_step_size == 0 || params_.decay_mom_rate == 0) return high;
    return high * (1 + params_.decay_mom_rate * decay_interval(index));
  }

 private:
  double start_lr(size_t group) const override { return min_lr_.at(group); }

  std::optional<double> start_momentum(size_t group) const override {
    if (!params_.cycle_momentum) return std::nullopt;
    return min_mom_.at(group);
  }

  bool in_cycle(int64_t index) const { return static_cast<double>(index) < total_size_; }

  double decay_interval(int64_t index) const {
    return (static_cast<double>(index) - total_size_ + 1) /
           static_cast<double>(params_.decay_step_size);
  }

  // Height in the triangle, 0 at min_lr and 1 at max_lr.
  double scale(int64_t index) const {
    const double position = static_cast<double>(index + 1);
    const double cycle = std::floor(1 + position / total_size_);
    const double x = 1.0 + position / total_size_ - cycle;
    const bool rising = x <= step_ratio_;
    const int64_t stairs = rising ? params_.cycle_first_stair_count : second_stairs_;
    if (stairs <= 0) return rising ? x / step_ratio_ : (x - 1) / (step_ratio_ - 1);
    const double count = static_cast<double>(stairs);
    const double within = std::fmod(position, total_size_);
    const double stair = within <= first_size_ ? within * count / first_size_
                                               : (total_size_ - within) * count / second_size_;
    return std::floor(stair) / count;
  }

  OneCycleParams params_;
  double first_size_, second_size_;
  int64_t second_stairs_;
  double total_size_ = 0;
  double step_ratio_ = 1;
  std::vector<double> min_lr_, max_lr_, min_mom_, max_mom_;
};

// The rising part that the three warm-up schedules share: 0 at index 0, 1 at index N - 1 (log) or N
// (linear).
class Warmup {
 public:
  Warmup(int64_t num_steps, WarmupType shape)
      : steps_(std::max<int64_t>(2, num_steps)), shape_(shape) {
    require_positive(num_steps, "warmup_num_steps");
    inverse_log_ = 1.0 / std::log(static_cast<double>(steps_));
  }
  int64_t steps() const { return steps_; }
  bool covers(int64_t index) const { return index < steps_; }
  double fraction(int64_t index) const {
    if (shape_ == WarmupType::kLinear)
      return static_cast<double>(index) / static_cast<double>(steps_);
    return inverse_log_ * std::log(static_cast<double>(index + 1));
  }

 private:
  int64_t steps_;
  WarmupType shape_;
  double inverse_log_ = 1;
};

// Whoever knows the run's length fills in a total that is not given.
double total_steps(const std::optional<int64_t>& given) {
  return static_cast<double>(required(given, "total_num_steps"));
}

// What follows the warm-up of WarmupLR and WarmupDecayLR.
class WarmupLr : public LrSchedule {
 public:
  WarmupLr(const WarmupLrParams& params, std::span<const double> base_lr)
      : LrSchedule(base_lr, params.last_batch_iteration),
        warmup_(params.warmup_num_steps, params.warmup_type),
        min_lr_(per_group(params.warmup_min_lr, base_lr.size(), "warmup_min_lr")),
        max_lr_(
            per_group(params.warmup_max_lr.value_or(std::vector(base_lr.begin(), base_lr.end())),
                      base_lr.size(), "warmup_max_lr")) {}

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
  WarmupDecayLr(const WarmupDecayLrParams& params, std::span<const double> base_lr)
      : WarmupLr({params.warmup_min_lr, params.warmup_max_lr, params.warmup_num_steps,
                  params.warmup_type, params.last_batch_iteration},
                 base_lr),
        total_(total_steps(params.total_num_steps)) {}

 private:
  double after_warmup(int64_t index) const override {
    const double span = std::max(1.0, total_ - static_cast<double>(warmup().steps()));
    return std::max(0.0, (total_ - static_cast<double>(index)) / span);
  }

  double total_;
};

class WarmupCosineLr final : public LrSchedule {
 public:
  WarmupCosineLr(const WarmupCosineLrParams& params, std::span<const double> base)
      : LrSchedule(base, params.last_batch_iteration),
        params_(params),
        total_(total_steps(params.total_num_steps)),
        warmup_(params.warmup_num_steps, params.warmup_type) {}

  double lr_at(int64_t index, size_t group) const override { return base_lr(group) * ratio(index); }

 private:
  double start_lr(size_t) const override { return 0.0; }

  double ratio(int64_t index) const {
    if (warmup_.covers(index))
      return params_.warmup_min_ratio + warmup_.fraction(index) * (1.0 - params_.warmup_min_ratio);
    const double done = static_cast<double>(index - warmup_.steps() + 1);
    const double span = std::max(1.0, total_ - static_cast<double>(warmup_.steps()));
    const double x = std::min(1.0, done / span);
    const double delta = 1.0 - params_.cos_min_ratio;
    return std::max(0.0, params_.cos_min_ratio + delta * (1 + std::cos(std::numbers::pi * x)) / 2);
  }

  WarmupCosineLrParams params_;
  double total_;
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

std::unique_ptr<LrSchedule> make_lr_schedule(const SchedulerConfig& config,
                                             std::span<const double> base_lr,
                                             MomentumSupport momentum) {
  DS_CHECK(config.type.has_value(), "lr schedule: no type given");
  switch (*config.type) {
    case SchedulerType::kLRRangeTest:
      return std::make_unique<LrRangeTest>(config.lr_range_test, base_lr);
    case SchedulerType::kOneCycle:
      return std::make_unique<OneCycle>(config.one_cycle, base_lr, momentum);
    case SchedulerType::kWarmupLR:
      return std::make_unique<WarmupLr>(config.warmup, base_lr);
    case SchedulerType::kWarmupDecayLR:
      return std::make_unique<WarmupDecayLr>(config.warmup_decay, base_lr);
    case SchedulerType::kWarmupCosineLR:
      return std::make_unique<WarmupCosineLr>(config.warmup_cosine, base_lr);
  }
  throw InternalError("lr schedule: unknown type");
}

}  // namespace ds
