// Which rank owns which elements under ZeRO (pure): the flat groups of stages 1 and 2, the single
// parameters of stage 3, and tensors that are cut evenly over ranks and carry their cut along as
// integers. Matches the layout of DeepSpeed's checkpoints, so that they can be read; the engine's
// own buckets are zero/layout/bucket_layout.h.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

// Order of parameters in a flat group: as given, or dealt out to the ranks in turn
// (round_robin_gradients).
enum class FlatOrder { kGiven, kRoundRobin };

// One parameter group under stages 1 and 2: parameters one after the other, zero padded at the end
// to a multiple of 2 * world (so that every half-precision slice is 4-byte aligned), cut evenly
// over `world` ranks.
struct FlatPartition {
  std::vector<int64_t> order;  // original index of each parameter, in flat order
  int64_t numel = 0;           // without padding
  int64_t aligned_numel = 0;
  int64_t partition_numel = 0;    // of every rank
  std::vector<int64_t> paddings;  // per rank: padding elements in its slice
  // Per rank: original indices of the parameters with elements in it.
  std::vector<std::vector<int64_t>> owned;
  // Per rank: elements of its first parameter that earlier ranks hold.
  std::vector<int64_t> first_offset;
};
FlatPartition partition_flat_group(std::span<const int64_t> numels, int world, FlatOrder order);

// One parameter under stage 3: every rank holds partition_numel elements, the last `padding` of all
// are padding.
struct ParameterPartition {
  int64_t partition_numel = 0;
  int64_t padding = 0;
};
ParameterPartition partition_parameter(int64_t numel, int world);

// A tensor cut evenly over ranks (core/values/partition.h, partition_uniform): this rank's range of
// the flat tensor, and the description that travels with it: [ndim, shape..., world, rank,
// boundaries...].
struct TensorPartition {
  int64_t start = 0;
  int64_t numel = 0;
  std::vector<int64_t> meta;
};
TensorPartition partition_tensor(std::span<const int64_t> shape, int world, int rank);

}  // namespace ds
