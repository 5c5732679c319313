// Random layer-wise token dropping (pure): how many tokens a random-LTD layer keeps at each step,
// how many layer tokens training has consumed, and which tokens are kept.
// Source: Yao et al., "Random-LTD" (arXiv 2211.11586), DeepSpeed's schedule.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/rng.h"
#include "data/curriculum.h"

namespace ds {

struct TokenDropOptions {
  int64_t total_layers = 0;
  int64_t dropping_layers = 0;  // of them; these process the kept tokens only
  int64_t global_batch_size = 1;
  int64_t min_value = 0;  // kept sequence length at step 0
  int64_t max_value = 0;  // and at the end of the schedule: the whole sequence
  std::string schedule_type = "fixed_linear";
  int64_t require_steps = 1;  // steps from min_value to max_value
  int64_t seq_per_step = 1;   // the kept length is a multiple of this
};

class TokenDropSchedule {
 public:
  explicit TokenDropSchedule(const TokenDropOptions& options);  // ConfigError

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

// `kept` of the positions 0 .. length-1, ascending, every subset equally likely; a function of the
// generator alone. Derive the generator per step, layer and sample.
std::vector<int32_t> kept_positions(const Rng& rng, int64_t length, int64_t kept);

}  // namespace ds
