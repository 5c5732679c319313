// ZeRO (Rajbhandari et al., arXiv 1910.02054) as a table: which of the three kinds of model state
// is sharded over the data axis, and on which tier it lives. A stage is a row.
#pragma once

#include <cstdint>

#include "comm/mesh_layout.h"
#include "core/memory/resource.h"
#include "core/status/error.h"

namespace ds {

enum class Sharding : uint8_t { kWhole, kSharded };

struct Placement {
  Sharding sharding = Sharding::kWhole;
  Tier tier = Tier::kDevice;
};

// This says how what codes of gradients lose is fed back (zero/reduce/code_errors.h). By default
// nothing is.
struct ErrorFeedback {
  bool on = false;
  float beta = 0.8F;           // of the average: how much of the one before stays
  int64_t reset_steps = 1024;  // after as many steps errors begin anew
};

// ZeRO++ (arXiv 2306.10209), at stage 3. What is near is the group of kShard.
struct ZeroPlusPlus {
  bool quantized_weights = false;    // qwZ: int8 codes are gathered
  bool quantized_gradients = false;  // qgZ: int4 codes are summed, near first
  bool secondary_weights = false;    // hpZ: gathered once more, they come from near
  ErrorFeedback feedback{};          // LoCo, of quantized gradients

  bool sends_codes() const { return quantized_weights || quantized_gradients; }
  bool is_on() const { return sends_codes() || secondary_weights; }
};

struct ZeroPolicy {
  Placement params, grads, state;
  // Over all ranks with other samples, or, with kShard, over some of them that are near each other
  // (MiCS, arXiv 2205.00119): the others of the data axis have the same slices and are kReplica.
  Axis shard_over = Axis::kData;
  ZeroPlusPlus plus_plus{};
};

inline ZeroPolicy zero_policy(int stage) {
  const auto at = [stage](int from) {
    return Placement{stage >= from ? Sharding::kSharded : Sharding::kWhole, Tier::kDevice};
  };
  if (stage < 0 || stage > 3) {
    throw ConfigError(fmt::format("zero_optimization.stage: {}, expected 0, 1, 2 or 3", stage));
  }
  return {.params = at(3), .grads = at(2), .state = at(1)};
}

}  // namespace ds
