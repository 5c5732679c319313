// Random layer-wise token dropping (pure): how many tokens a random-LTD layer keeps at each step,
// and how many layer tokens training has consumed. Which tokens are kept: random_subset of
// core/values/sample.h, with a generator derived per step, layer and sample.
// Source: Yao et al., "Random-LTD" (arXiv 2211.11586), DeepSpeed's schedule.
#pragma once

#include <cstdint>
#include <string>

#include "data/efficiency/curriculum.h"

namespace ds {

struct TokenDropOptions {
  int64_t total_layers = 0;
  int64_t dropping_layers = 0;  // of them; these process the kept tokens only
  int64_t global_batch_size = 1;
  int64_t min_value = 0;  // kept sequence length at step 0
  int64_t max_value = 0;  // and at the end of the schedule: the whole sequence
  std::string schedule_type = "fixed_linear";
  int64_t require_steps = 1;             // steps from min_value to max_value
  int64_t seq_per_step = 1;              // the kept length is a multiple of this
  bool layer_token_lr_schedule = false;  // a learning rate over layer tokens: nothing has one
};

class TokenDropSchedule {
 public:
  explicit TokenDropSchedule(const TokenDropOptions& options);  // ConfigError, Unsupported

  // Moves on to `step`; a step given twice is counted once. Consumed layer tokens grow by
  // global_batch * (kept * dropping_layers + max_value * (total_layers - dropping_layers)).
  void update(int64_t step);

  // The state.
  struct State {
    int64_t kept_length = 0;
    int64_t consumed_layer_tokens = 0;
    int64_t step = -1;
  };
  const State& state() const { return state_; }
  void restore(const State& state) { state_ = state; }

 private:
  TokenDropOptions options_;
  RootSchedule schedule_;
  State state_;
};

// Layer tokens that a whole run of `steps` steps consumes from the start.
int64_t total_layer_tokens(const TokenDropOptions& options, int64_t steps);

}  // namespace ds
