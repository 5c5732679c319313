// ZeRO (Rajbhandari et al., arXiv 1910.02054) as a table: which of the three kinds of model state
// is sharded over the data axis, and on which tier it lives. A stage is a row.
#pragma once

#include <cstdint>

#include "comm/mesh_layout.h"
#include "core/error.h"
#include "core/memory/resource.h"

namespace ds {

enum class Sharding : uint8_t { kWhole, kSharded };

struct Placement {
  Sharding sharding = Sharding::kWhole;
  Tier tier = Tier::kDevice;
};

struct ZeroPolicy {
  Placement params, grads, state;
  // Over all ranks with other samples, or, with kShard, over some of them that are near each other
  // (MiCS, arXiv 2205.00119): the others of the data axis have the same slices and are kReplica.
  Axis shard_over = Axis::kData;
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
