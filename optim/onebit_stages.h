// Which update of the 1-bit optimizers does what (pure): they warm up with whole gradients, then go
// on with one bit per number. By the number of the update alone: a run that resumes does what
// one without a stop would have done.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "optim/optimizer.h"

namespace ds {

// The first update changes nothing, as DeepSpeed's sets up its buffers only; updates up to
// freeze_step warm up, but never fewer than one.
enum class OneBitStage : uint8_t { kSetUp, kWarmUp, kCompressed };
constexpr OneBitStage onebit_stage(int64_t update, int64_t freeze_step) {
  if (update <= 1) return OneBitStage::kSetUp;
  return update <= std::max(int64_t{2}, freeze_step) ? OneBitStage::kWarmUp
                                                     : OneBitStage::kCompressed;
}

constexpr GradientsOf gradients_of(OneBitStage stage) {
  return stage == OneBitStage::kCompressed ? GradientsOf::kOwnRank : GradientsOf::kAllRanks;
}

// See Optimizer::kinds_of_updates().
inline std::vector<int64_t> onebit_kinds_of_updates(int64_t last, int64_t freeze_step) {
  constexpr int64_t kWarm = 2;
  const int64_t compressed = std::max(kWarm, freeze_step) + 1;
  return last < compressed ? std::vector{kWarm} : std::vector{compressed, kWarm};
}

// 0/1 Adam. While the variance moves, updates at which it does have whole gradients, the others
// gradients in one bit, and the variance moves ever more rarely. Afterwards each rank goes on alone
// for ever longer intervals, at whose ends all agree. DeepSpeed's policies; the first changes
// nothing, either.
enum class ZeroOneStage : uint8_t { kSetUp, kVariance, kGradient, kLocal };
struct ZeroOneUpdate {
  ZeroOneStage stage = ZeroOneStage::kSetUp;
  bool is_first_local = false;
  bool agrees = false;  // of kLocal: ranks have the same weights after it
  int64_t since = 0;    // of kLocal: the first update of its interval
};

// Whether the variance moves: at multiples of an interval that doubles after `scaler` of them.
constexpr bool moves_variance(int64_t update, int64_t scaler) {
  int64_t interval = 1, from = 1;
  while (interval <= update) {
    const int64_t last = (from / interval + scaler) * interval;
    if (update <= last) return update % interval == 0;
    from = last;
    interval *= 2;
  }
  return false;
}

constexpr int64_t first_local_update(const ZeroOneAdamParams& params) {
  return std::max(int64_t{1}, params.var_freeze_step) + 2;
}

constexpr bool agrees_at(int64_t update, const ZeroOneAdamParams& params) {
  const int64_t doublings = (update - first_local_update(params)) / params.local_step_scaler;
  int64_t interval = 1;
  for (int64_t i = 0; i < doublings && interval < params.local_step_clipper; ++i) {
    interval = std::min(params.local_step_clipper, interval * 2);
  }
  return update % interval == 0;
}

constexpr ZeroOneUpdate zero_one_update(int64_t update, const ZeroOneAdamParams& params) {
  if (update <= 1) return {};
  const int64_t first = first_local_update(params);
  if (update < first) {
    return {.stage = moves_variance(update, params.var_update_scaler) ? ZeroOneStage::kVariance
                                                                      : ZeroOneStage::kGradient};
  }
  int64_t since = update;
  while (since > first && !agrees_at(since - 1, params)) --since;
  return {.stage = ZeroOneStage::kLocal,
          .is_first_local = update == first,
          .agrees = agrees_at(update, params),
          .since = since};
}

}  // namespace ds
