// The 1-bit optimizers in plain loops over parameters and ranks, written from the papers and from
// what DeepSpeed's classes do, without anything of the product but its parameters.
#pragma once

#include <cstdint>
#include <vector>

#include "config/sections/optimizer.h"

namespace ds::testing {

const std::vector<int64_t>& onebit_sizes();
float onebit_start(int64_t param, int64_t at);
// Returns the gradient of the samples of one rank.
float onebit_gradient(int rank, int64_t param, int64_t at, int64_t step);
double onebit_rate(int64_t step);

class OneBitRun {
 public:
  using Floats = std::vector<float>;

  OneBitRun(const OptimizerConfig& config, int ranks);
  void step(int64_t number);                         // 1 for the first, each in its turn
  std::vector<std::vector<Floats>> weights() const;  // by rank and parameter

 private:
  // This is the state of one rank and parameter.
  struct State {
    Floats w, m, v, moved, agreed, fresh, last;
  };
  struct Errors {
    std::vector<Floats> worker, server;  // by rank
  };

  Floats own_gradient(int rank, int64_t param, int64_t number) const;
  Floats summed_gradient(int64_t param, int64_t number) const;
  void descend(State& state, double rate, const CompressedParams& params) const;
  void adam_step(int64_t number);
  void adam_warm(int64_t number);
  void adam_whole(size_t p, int64_t number);
  bool never_freezes(size_t p) const;
  void adam_compressed(int64_t number);
  void zero_one_step(int64_t number);
  void zero_one_gradient(int64_t number);
  void zero_one_local(int64_t number);
  void zero_one_agree();
  void lamb_step(int64_t number);
  void lamb_warm(int64_t number);
  void lamb_compressed(int64_t number);
  void lamb_exchange(int64_t number);
  double lamb_factor(int64_t param, double prelim, double with_decay);

  const OptimizerConfig config_;
  const int ranks_;
  std::vector<std::vector<State>> states_;  // by rank and parameter
  std::vector<Errors> errors_;              // by parameter
  Errors flat_errors_;                      // of all momenta of LAMB
  // 0/1 Adam's policies, counted as DeepSpeed counts them.
  int64_t variance_interval_ = 1, variance_count_ = 0, local_interval_ = 1, local_count_ = 0;
  double rates_ = 0;
  bool frozen_ = false;
  // LAMB's, by parameter.
  std::vector<double> frozen_ratio_, last_factor_, scale_;
};

}  // namespace ds::testing
