// The places of each parameter's elements in the ZeRO partitions of a DeepSpeed checkpoint (pure):
// runs of elements in the flat tensors of ranks. Names, shapes and sizes in, places out; no element
// is looked at, so that a reader can take one parameter at a time.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ds::deepspeed {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
  int64_t padding = 0;  // elements between it and the next one of a flat group, which align that
};
using ParamGroups = std::vector<std::vector<NamedShape>>;  // in flat order
using PartitionSizes = std::vector<int64_t>;               // of one rank: elements per group

// Elements [first, first + numel) of the flat partition of a rank in a group.
struct PlacedRun {
  size_t rank = 0;
  size_t group = 0;
  int64_t first = 0;
  int64_t numel = 0;
  friend bool operator==(const PlacedRun&, const PlacedRun&) = default;
};

struct PlacedParameter {
  NamedShape parameter;
  std::vector<PlacedRun> runs;  // together its elements, in order; none is empty
};

// DataError for a negative extent, and for more elements than 2^63 - 1.
int64_t numel_of(const NamedShape& parameter);

// Stages 1 and 2: a group is the concatenation of its partitions over ranks, up to 2 * ranks - 1
// elements of padding at its end. Throws DataError when there are too few elements, or more than
// padding can explain.
std::vector<PlacedParameter> place_flat(const ParamGroups& groups,
                                        std::span<const PartitionSizes> ranks);

// Stage 3: every rank holds ceil(numel / ranks) elements of each parameter, one after the other
// over all groups; the last ranks' surplus is padding. Throws DataError when the sizes do not add
// up.
std::vector<PlacedParameter> place_partitioned(const ParamGroups& groups,
                                               std::span<const PartitionSizes> ranks);

}  // namespace ds::deepspeed
