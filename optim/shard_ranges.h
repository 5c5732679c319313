// Ranges of a shard that are updated alike.
#pragma once

#include "optim/optimizer.h"

namespace ds {

struct ShardRange {
  int group = 0;
  int64_t begin = 0, numel = 0;
  std::optional<kernels::WeightNoise> noise = std::nullopt;  // of what is rounded at random
  bool operator==(const ShardRange&) const = default;
};

// Together all of the shard: what lies between parameters belongs to the one before it. One range
// where nothing is said of parameters. Neighbours are of different groups.
std::vector<ShardRange> ranges_by_group(const Shard& shard, std::span<const ParamPlace> params);

// Returns the same; if weights are rounded at random, a range for each parameter.
std::vector<ShardRange> ranges_of(const Shard& shard, const UpdateGroup& group);

// Those elements of every tensor of the shard; no fields. Bounds are multiples of what a scale of
// its slots stands for.
Shard part_of(const Shard& shard, int64_t begin, int64_t numel);

}  // namespace ds
