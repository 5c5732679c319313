// Slices of buckets as what keeps their optimizer state finds them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/device/tensor.h"
#include "optim/optimizer.h"
#include "zero/layout/state_parts.h"
#include "zero/state/offloaded_weights.h"

namespace ds {

// A slice whose weights are not on the device, by its number among those.
struct OffloadedSlice {
  OffloadedWeights* keeper = nullptr;  // null: they are on the device
  int slice = -1;
  int64_t numel = 0;
};

// A slice as the state store finds it.
struct StateSlice {
  Tensor weights;                       // [slice_numel], of the parameters' dtype; or
  OffloadedSlice elsewhere = {};        // they have masters on the device then, and no copy there
  std::vector<ShardField> fields = {};  // what lies in it
  Tensor grad = {};                     // where others keep it; undefined: the state store does
  std::optional<ShardSlice> own = std::nullopt;  // as Shard has it; such slices are not cut

  int64_t numel() const { return weights.defined() ? weights.numel() : elsewhere.numel; }
};

}  // namespace ds
