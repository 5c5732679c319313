// Curriculum pacing functions.
#include "data/efficiency/curriculum.h"

#include <algorithm>
#include <cmath>

#include "core/status/error.h"

namespace ds {
namespace {

template <class T>
T required(const std::optional<T>& value, const char* key, const std::string& type) {
  if (!value) throw ConfigError(fmt::format("curriculum: schedule_type {} needs {}", type, key));
  return *value;
}

std::variant<RootSchedule, DiscreteSchedule> schedule_of(const CurriculumOptions& options) {
  const std::string& type = options.schedule_type;
  if (type == "fixed_discrete") return DiscreteSchedule{options.difficulty, options.max_step};
  if (type != "fixed_linear" && type != "fixed_root") {
    throw ConfigError(fmt::format(
        "curriculum: schedule_type is '{}', expected fixed_linear, fixed_root or fixed_discrete",
        type));
  }
  return RootSchedule{
      .min = options.min_difficulty,
      .max = options.max_difficulty,
      .steps = required(options.total_curriculum_step, "total_curriculum_step", type),
      .granularity = required(options.difficulty_step, "difficulty_step", type),
      .root_degree =
          type == "fixed_root" ? required(options.root_degree, "root_degree", type) : 1.0};
}

}  // namespace

void RootSchedule::check(const char* what) const {
  if (steps < 1) {
    throw ConfigError(
        fmt::format("{}: the number of schedule steps is {}, expected at least 1", what, steps));
  }
  if (granularity < 1) {
    throw ConfigError(fmt::format("{}: the step of the schedule's value is {}, expected at least 1",
                                  what, granularity));
  }
  if (!(root_degree > 0) || !std::isfinite(root_degree)) {
    throw ConfigError(
        fmt::format("{}: root_degree is {}, expected a number above 0", what, root_degree));
  }
}

int64_t RootSchedule::at(int64_t step) const {
  const double share =
      std::pow(static_cast<double>(step) / static_cast<double>(steps), 1.0 / root_degree);
  DS_CHECK(!std::isnan(share), "schedule: step {} has no root of degree {}", step, root_degree);
  const double exact =
      std::floor(share * static_cast<double>(max - min) + static_cast<double>(min));
  // Past the range of int64 the cap decides anyway.
  if (!(exact < 9e18)) return max;
  const int64_t value = static_cast<int64_t>(std::max(exact, -9e18));
  const int64_t remainder = ((value % granularity) + granularity) % granularity;
  return std::min(value - remainder, max);
}

void DiscreteSchedule::check(const char* what) const {
  if (max_step.empty() || difficulty.size() != max_step.size() + 1) {
    throw ConfigError(
        fmt::format("{}: difficulty has {} entries and max_step {}; max_step needs at least one "
                    "and exactly one "
                    "fewer than difficulty",
                    what, difficulty.size(), max_step.size()));
  }
}

int64_t DiscreteSchedule::at(int64_t step) const {
  if (step > max_step.back()) return difficulty.back();
  for (size_t k = 0; k < max_step.size(); ++k) {
    if (step <= max_step[k]) return difficulty[k];
  }
  return difficulty.back();
}

Curriculum::Curriculum(const CurriculumOptions& options)
    : schedule_(schedule_of(options)),
      max_(options.max_difficulty),
      current_(options.min_difficulty) {
  std::visit([](const auto& schedule) { schedule.check("curriculum"); }, schedule_);
}

int64_t Curriculum::at(int64_t step) const {
  return std::visit([step](const auto& schedule) { return schedule.at(step); }, schedule_);
}

int64_t Curriculum::of_step(int64_t step) const {
  const auto* const levels = std::get_if<DiscreteSchedule>(&schedule_);
  if (levels == nullptr) return at(step);  // which never goes down
  for (size_t k = 0; k < levels->max_step.size(); ++k) {
    if (step <= levels->max_step[k] || levels->difficulty[k] >= max_) return levels->difficulty[k];
  }
  return levels->difficulty.back();
}

std::vector<int64_t> Curriculum::changes(int64_t last) const {
  std::vector<int64_t> steps{1};
  if (const auto* const levels = std::get_if<DiscreteSchedule>(&schedule_)) {
    for (const int64_t end : levels->max_step) {
      const int64_t next = end + 1;
      if (next > steps.back() && next <= last && of_step(next) != of_step(steps.back())) {
        steps.push_back(next);
      }
    }
    return steps;
  }
  // Beyond this a double has no step of its own.
  const int64_t end = std::min(last, int64_t{1} << 50);
  while (at(steps.back()) != at(end)) {
    int64_t same = steps.back(), other = end;  // it changes in between
    while (other - same > 1) {
      const int64_t middle = same + (other - same) / 2;
      (at(middle) == at(steps.back()) ? same : other) = middle;
    }
    steps.push_back(other);
  }
  return steps;
}

int64_t Curriculum::update(int64_t step) {
  if (current_ < max_) current_ = at(step);
  return current_;
}

}  // namespace ds
