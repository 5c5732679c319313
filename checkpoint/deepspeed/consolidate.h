// Whole fp32 weights out of the ZeRO partitions of a DeepSpeed checkpoint (pure). It sees numbers
// and shapes; the caller reads the files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/places.h"

namespace ds::deepspeed {

struct NamedTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::vector<float> values;
};

using RankPartitions = std::vector<std::vector<float>>;  // one flat partition per group

// Stages 1 and 2: a group is the concatenation of its partitions over ranks, up to 2 * ranks - 1
// elements of padding at its end. Throws DataError when there are too few values, or more than
// padding can explain.
std::vector<NamedTensor> consolidate_flat(const ParamGroups& groups,
                                          std::span<const RankPartitions> ranks);

// Stage 3: every rank holds ceil(numel / ranks) elements of each parameter, one after the other
// over all groups; the last ranks' surplus is padding. Throws DataError when the sizes do not add
// up.
std::vector<NamedTensor> consolidate_partitioned(const ParamGroups& groups,
                                                 std::span<const RankPartitions> ranks);

}  // namespace ds::deepspeed
