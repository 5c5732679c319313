// Areas curriculum, random_ltd and progressive_layer_drop: schedules over steps.
#include <stdexcept>

#include "data/efficiency/curriculum.h"
#include "data/efficiency/token_drop.h"
#include "model/progressive_layer_drop.h"
#include "tests/conform/areas.h"
#include "tests/conform/json_io.h"

namespace ds::conform {
namespace {

std::vector<int64_t> list_or_empty(const Json& object, const char* key) {
  const Json* value = find(object, key);
  return value ? list<int64_t>(*value) : std::vector<int64_t>{};
}

Curriculum curriculum_of(const Json& config) {
  const Json& schedule = need(config, "schedule_config");
  return Curriculum(
      {.min_difficulty = get<int64_t>(config, "min_difficulty"),
       .max_difficulty = get<int64_t>(config, "max_difficulty"),
       .schedule_type = get<std::string>(config, "schedule_type"),
       .total_curriculum_step = get_optional<int64_t>(schedule, "total_curriculum_step"),
       .difficulty_step = get_optional<int64_t>(schedule, "difficulty_step"),
       .root_degree = get_optional<double>(schedule, "root_degree"),
       .difficulty = list_or_empty(schedule, "difficulty"),
       .max_step = list_or_empty(schedule, "max_step")});
}

TokenDropOptions token_drop_of(const Json& config) {
  const Json& schedule = need(config, "random_ltd_schedule");
  const Json& pace = need(schedule, "schedule_config");
  return {.total_layers = get<int64_t>(config, "total_layer_num"),
          .dropping_layers = get<int64_t>(config, "random_ltd_layer_num"),
          .global_batch_size = get<int64_t>(config, "global_batch_size"),
          .min_value = get<int64_t>(schedule, "min_value"),
          .max_value = get<int64_t>(schedule, "max_value"),
          .schedule_type = get<std::string>(schedule, "schedule_type"),
          .require_steps = get<int64_t>(pace, "require_steps"),
          .seq_per_step = get<int64_t>(pace, "seq_per_step"),
          .layer_token_lr_schedule = get<bool>(need(config, "layer_token_lr_schedule"), "enabled")};
}

}  // namespace

std::string curriculum(const Json& input) {
  Curriculum curriculum = curriculum_of(need(input, "config"));
  const bool remembers = get<std::string>(input, "op") == "update";
  std::vector<int64_t> difficulty;
  for (const int64_t step : list<int64_t>(need(input, "steps"))) {
    difficulty.push_back(remembers ? curriculum.update(step) : curriculum.at(step));
  }
  return Answer().add("difficulty", difficulty).text();
}

std::string random_ltd(const Json& input) {
  const TokenDropOptions options = token_drop_of(need(input, "config"));
  if (get<std::string>(input, "op") == "total") {
    const int64_t steps = get<int64_t>(input, "train_iters");
    return Answer().add("consumed", total_layer_tokens(options, steps)).text();
  }
  TokenDropSchedule schedule(options);
  std::vector<int64_t> kept, consumed;
  for (const int64_t step : list<int64_t>(need(input, "steps"))) {
    schedule.update(step);
    kept.push_back(schedule.state().kept_length);
    consumed.push_back(schedule.state().consumed_layer_tokens);
  }
  return Answer().add("seq", kept).add("consumed", consumed).text();
}

std::string progressive_layer_drop(const Json& input) {
  ProgressiveLayerDrop drop(get<double>(input, "theta"), get<double>(input, "gamma"));
  const double initial = drop.current();
  std::vector<double> theta;
  for (const int64_t step : list<int64_t>(need(input, "steps"))) theta.push_back(drop.update(step));
  return Answer().add("initial", initial).add("theta", theta).text();
}

}  // namespace ds::conform
