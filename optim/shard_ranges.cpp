#include "optim/shard_ranges.h"

#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/rng.h"

namespace ds {

std::vector<ShardRange> ranges_by_group(const Shard& shard, std::span<const ParamPlace> params) {
  std::vector<ShardRange> ranges;
  if (!params.empty()) {
    for (const ShardField& field : shard.fields) {
      const int group = params[to_size(field.param)].group;
      if (!ranges.empty() && ranges.back().group == group) continue;
      const int64_t begin = ranges.empty() ? 0 : field.offset;
      if (!ranges.empty()) ranges.back().numel = begin - ranges.back().begin;
      ranges.push_back({.group = group, .begin = begin});
    }
  }
  if (ranges.empty()) ranges.push_back({});
  ranges.back().numel = shard.master.numel() - ranges.back().begin;
  return ranges;
}

std::vector<ShardRange> ranges_of(const Shard& shard, const UpdateGroup& group) {
  if (!group.rounding_seed || shard.master.dtype() == DType::kF32) {
    return ranges_by_group(shard, group.params);
  }
  const Rng seed(*group.rounding_seed, "weight rounding");
  std::vector<ShardRange> ranges;
  for (const ShardField& field : shard.fields) {
    const ParamPlace place = group.params.empty()
                                 ? ParamPlace{.key = static_cast<uint64_t>(field.param)}
                                 : nth(group.params, field.param);
    const int64_t begin = ranges.empty() ? 0 : field.offset;
    if (!ranges.empty()) ranges.back().numel = begin - ranges.back().begin;
    ranges.push_back(
        {.group = place.group,
         .begin = begin,
         .noise = kernels::WeightNoise{.key = seed.derive(place.key).key(),
                                       .first = field.param_begin - (field.offset - begin)}});
  }
  if (ranges.empty()) ranges.push_back({});  // padding alone
  ranges.back().numel = shard.master.numel() - ranges.back().begin;
  return ranges;
}

Shard part_of(const Shard& shard, int64_t begin, int64_t numel) {
  Shard part;
  part.master = shard.master.narrow(begin, numel);
  part.grad = shard.grad.narrow(begin, numel);
  if (shard.copy.defined()) part.copy = shard.copy.narrow(begin, numel);
  for (const Tensor& slot : shard.slots) part.slots.push_back(slot.narrow(begin, numel));
  for (const Tensor& scale : shard.scales) {
    DS_CHECK(!scale.defined() ||
                 (begin % kWeightsPerScale == 0 &&
                  (numel % kWeightsPerScale == 0 || begin + numel == shard.master.numel())),
             "part of a shard: elements {} to {} cut a block of {} with one scale", begin,
             begin + numel, kWeightsPerScale);
    part.scales.push_back(scale.defined()
                              ? scale.narrow(begin / kWeightsPerScale,
                                             (numel + kWeightsPerScale - 1) / kWeightsPerScale)
                              : Tensor());
  }
  return part;
}

}  // namespace ds
