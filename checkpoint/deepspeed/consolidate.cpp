// Whole fp32 weights out of ZeRO partitions.
#include "checkpoint/deepspeed/consolidate.h"

#include <algorithm>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

int64_t numel_of(const NamedShape& parameter) {
  int64_t numel = 1;
  for (const int64_t size : parameter.shape) {
    if (size < 0 || __builtin_mul_overflow(numel, size, &numel)) {
      throw DataError(fmt::format("checkpoint: parameter {} has the impossible shape [{}]",
                                  parameter.name, fmt::join(parameter.shape, ", ")));
    }
  }
  return numel;
}

std::vector<float> concatenated(std::span<const RankPartitions> ranks, size_t group) {
  std::vector<float> all;
  for (const RankPartitions& rank : ranks) {
    if (group >= rank.size()) {
      throw DataError(fmt::format(
          "checkpoint: a rank has {} parameter groups, expected more than {}", rank.size(), group));
    }
    all.insert(all.end(), rank[group].begin(), rank[group].end());
  }
  return all;
}

}  // namespace

std::vector<NamedTensor> consolidate_flat(const ParamGroups& groups,
                                          std::span<const RankPartitions> ranks) {
  if (ranks.empty()) throw DataError("checkpoint: no rank's partitions given");
  std::vector<NamedTensor> tensors;
  const int64_t alignment = 2 * narrow<int64_t>(ranks.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<float> flat = concatenated(ranks, g);
    const auto available = narrow<int64_t>(flat.size());
    int64_t offset = 0;
    for (const NamedShape& parameter : groups[g]) {
      const int64_t numel = numel_of(parameter);
      if (numel > available - offset) {
        throw DataError(
            fmt::format("checkpoint: parameter {} needs {} elements at {}, but group {} has {}",
                        parameter.name, numel, offset, g, available));
      }
      tensors.push_back({parameter.name,
                         parameter.shape,
                         {flat.begin() + offset, flat.begin() + offset + numel}});
      offset += numel;
    }
    if (round_up(offset, alignment) != round_up(available, alignment)) {
      throw DataError(
          fmt::format("checkpoint: group {} has {} elements, but its parameters take {}", g,
                      available, offset));
    }
  }
  return tensors;
}

std::vector<NamedTensor> consolidate_partitioned(const ParamGroups& groups,
                                                 std::span<const RankPartitions> ranks) {
  if (ranks.empty()) throw DataError("checkpoint: no rank's partitions given");
  const auto world = narrow<int64_t>(ranks.size());
  std::vector<std::vector<float>> flat;
  for (const RankPartitions& rank : ranks) {
    auto& all = flat.emplace_back();
    for (const auto& group : rank) all.insert(all.end(), group.begin(), group.end());
  }
  int64_t needed = 0;
  for (const auto& group : groups) {
    for (const NamedShape& parameter : group)
      needed += round_up(numel_of(parameter), world) / world;
  }
  for (size_t r = 0; r < flat.size(); ++r) {
    if (static_cast<int64_t>(flat[r].size()) != needed) {
      throw DataError(fmt::format(
          "checkpoint: rank {} holds {} elements, but its share of the parameters is {}", r,
          flat[r].size(), needed));
    }
  }
  std::vector<NamedTensor> tensors;
  int64_t offset = 0;
  for (const auto& group : groups) {
    for (const NamedShape& parameter : group) {
      const int64_t numel = numel_of(parameter), share = round_up(numel, world) / world;
      NamedTensor& tensor = tensors.emplace_back(NamedTensor{parameter.name, parameter.shape, {}});
      for (const auto& rank : flat) {
        const int64_t take = std::min(share, numel - narrow<int64_t>(tensor.values.size()));
        tensor.values.insert(tensor.values.end(), rank.begin() + offset,
                             rank.begin() + offset + take);
      }
      offset += share;
    }
  }
  return tensors;
}

}  // namespace ds::deepspeed
