// Random-LTD schedule.
#include "data/efficiency/token_drop.h"

#include "core/status/error.h"

namespace ds {
namespace {

RootSchedule schedule_of(const TokenDropOptions& options) {
  if (options.schedule_type != "fixed_linear") {
    throw ConfigError(fmt::format("random_ltd: schedule_type is '{}', expected fixed_linear",
                                  options.schedule_type));
  }
  return {.min = options.min_value,
          .max = options.max_value,
          .steps = options.require_steps,
          .granularity = options.seq_per_step};
}

}  // namespace

TokenDropSchedule::TokenDropSchedule(const TokenDropOptions& options)
    : options_(options), schedule_(schedule_of(options)) {
  schedule_.check("random_ltd");
  if (options.layer_token_lr_schedule) {
    throw Unsupported(
        "random_ltd: layer_token_lr_schedule is not available; set its enabled to false and use "
        "the section scheduler");
  }
  if (options.dropping_layers < 0 || options.dropping_layers > options.total_layers) {
    throw ConfigError(fmt::format("random_ltd: random_ltd_layer_num is {}, expected 0 to {} layers",
                                  options.dropping_layers, options.total_layers));
  }
  state_.kept_length = options.min_value;
}

void TokenDropSchedule::update(int64_t step) {
  if (state_.kept_length < options_.max_value) state_.kept_length = schedule_.at(step);
  if (step == state_.step) return;
  state_.step = step;
  const int64_t whole_layers = options_.total_layers - options_.dropping_layers;
  state_.consumed_layer_tokens +=
      options_.global_batch_size *
      (state_.kept_length * options_.dropping_layers + options_.max_value * whole_layers);
}

int64_t total_layer_tokens(const TokenDropOptions& options, int64_t steps) {
  TokenDropSchedule schedule(options);
  for (int64_t step = 0; step < steps; ++step) schedule.update(step);
  return schedule.state().consumed_layer_tokens;
}

}  // namespace ds
