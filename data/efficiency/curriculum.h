// Curriculum difficulty over training steps (pure): the pacing functions of curriculum learning and
// the state that walks along them. A difficulty is a whole number whose meaning (sequence length,
// rarity, percentile) belongs to the caller. Nothing here reads samples or JSON.
// Source: Li et al., "The Stability-Efficiency Dilemma" (arXiv 2108.06084), DeepSpeed's schedules.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace ds {

// d = floor((t / steps)^(1 / root_degree) * (max - min) + min), then d -= d mod granularity, then
// min(d, max). Rounding down may give less than min when min is no multiple of the granularity.
struct RootSchedule {
  int64_t min = 0;
  int64_t max = 0;
  int64_t steps = 0;        // >= 1
  int64_t granularity = 1;  // >= 1
  double root_degree = 1;   // 1 is linear; more than 0

  void check(const char* what) const;  // ConfigError
  int64_t at(int64_t step) const;
};

// difficulty[k] for the first k with step <= max_step[k]; the last one after the last max_step.
struct DiscreteSchedule {
  std::vector<int64_t> difficulty;
  std::vector<int64_t> max_step;  // one entry fewer than difficulty

  void check(const char* what) const;  // ConfigError
  int64_t at(int64_t step) const;
};

// The keys of a curriculum section; which are needed depends on schedule_type.
struct CurriculumOptions {
  int64_t min_difficulty = 1;
  int64_t max_difficulty = 1;
  std::string schedule_type;  // fixed_linear | fixed_root | fixed_discrete
  std::optional<int64_t> total_curriculum_step = std::nullopt;
  std::optional<int64_t> difficulty_step = std::nullopt;
  std::optional<double> root_degree = std::nullopt;
  std::vector<int64_t> difficulty = {};
  std::vector<int64_t> max_step = {};
};

class Curriculum {
 public:
  explicit Curriculum(const CurriculumOptions& options);  // ConfigError names the wrong key

  // What the schedule says for one step, without memory.
  int64_t at(int64_t step) const;
  // The difficulty of a run's step, from 1 on: as at(), but that it stays where it first was the
  // maximum or more.
  int64_t of_step(int64_t step) const;
  // The steps up to `last` from which on of_step() is another one than before, step 1 first.
  std::vector<int64_t> changes(int64_t last) const;
  // Moves on to `step` and returns the difficulty; once the maximum is reached it stays.
  int64_t update(int64_t step);

  // The state, starting at min_difficulty.
  int64_t current() const { return current_; }
  void restore(int64_t current) { current_ = current; }

 private:
  std::variant<RootSchedule, DiscreteSchedule> schedule_;
  int64_t max_;
  int64_t current_;
};

}  // namespace ds
