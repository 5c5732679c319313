// Whole fp32 weights out of ZeRO partitions.
#include "checkpoint/deepspeed/consolidate.h"

#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

std::vector<PartitionSizes> sizes_of(std::span<const RankPartitions> ranks) {
  std::vector<PartitionSizes> sizes;
  for (const RankPartitions& rank : ranks) {
    PartitionSizes& of_rank = sizes.emplace_back();
    for (const auto& group : rank) of_rank.push_back(narrow<int64_t>(group.size()));
  }
  return sizes;
}

std::vector<NamedTensor> gather(const std::vector<PlacedParameter>& placed,
                                std::span<const RankPartitions> ranks) {
  std::vector<NamedTensor> tensors;
  for (const auto& [parameter, runs] : placed) {
    NamedTensor& tensor = tensors.emplace_back(NamedTensor{parameter.name, parameter.shape, {}});
    for (const PlacedRun& run : runs) {
      const auto first = ranks[run.rank][run.group].begin() + run.first;
      tensor.values.insert(tensor.values.end(), first, first + run.numel);
    }
  }
  return tensors;
}

}  // namespace

std::vector<NamedTensor> consolidate_flat(const ParamGroups& groups,
                                          std::span<const RankPartitions> ranks) {
  return gather(place_flat(groups, sizes_of(ranks)), ranks);
}

std::vector<NamedTensor> consolidate_partitioned(const ParamGroups& groups,
                                                 std::span<const RankPartitions> ranks) {
  return gather(place_partitioned(groups, sizes_of(ranks)), ranks);
}

}  // namespace ds::deepspeed
