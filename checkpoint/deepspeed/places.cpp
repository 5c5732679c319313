#include "checkpoint/deepspeed/places.h"

#include <algorithm>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds::deepspeed {

namespace {

void require_ranks(std::span<const PartitionSizes> ranks) {
  if (ranks.empty()) throw DataError("checkpoint: no rank's partitions given");
}

// Elements of a group that are taken one after the other over the ranks.
class GroupCursor {
 public:
  GroupCursor(std::span<const PartitionSizes> ranks, size_t group) : group_(group) {
    for (const PartitionSizes& rank : ranks) {
      if (group >= rank.size()) {
        throw DataError(
            fmt::format("checkpoint: a rank has {} parameter groups, expected more than {}",
                        rank.size(), group));
      }
      sizes_.push_back(rank[group]);
      available_ += rank[group];
    }
  }
  int64_t available() const { return available_; }
  int64_t offset() const { return offset_; }

  // `numel` is no more than what is left, available() - offset().
  std::vector<PlacedRun> take(int64_t numel) {
    std::vector<PlacedRun> runs;
    offset_ += numel;
    while (numel > 0) {
      const int64_t count = std::min(numel, sizes_[rank_] - inside_);
      if (count == 0) {
        ++rank_;
        inside_ = 0;
        continue;
      }
      runs.push_back({.rank = rank_, .group = group_, .first = inside_, .numel = count});
      inside_ += count;
      numel -= count;
    }
    return runs;
  }

 private:
  size_t group_;
  std::vector<int64_t> sizes_;
  int64_t available_ = 0, offset_ = 0;
  size_t rank_ = 0;
  int64_t inside_ = 0;  // of that rank's partition
};

// Elements [begin, begin + numel) of all groups of a rank, one group after the other.
void add_runs(size_t rank, const PartitionSizes& sizes, int64_t begin, int64_t numel,
              std::vector<PlacedRun>& runs) {
  int64_t group_begin = 0;
  for (size_t group = 0; group < sizes.size() && numel > 0; ++group) {
    const int64_t group_end = group_begin + sizes[group];
    const int64_t count = std::min(numel, group_end - begin);
    if (count > 0) {
      runs.push_back({.rank = rank, .group = group, .first = begin - group_begin, .numel = count});
      begin += count;
      numel -= count;
    }
    group_begin = group_end;
  }
}

int64_t sum(const PartitionSizes& sizes) {
  int64_t all = 0;
  for (const int64_t size : sizes) all += size;
  return all;
}

}  // namespace

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

std::vector<PlacedParameter> place_flat(const ParamGroups& groups,
                                        std::span<const PartitionSizes> ranks) {
  require_ranks(ranks);
  std::vector<PlacedParameter> placed;
  const int64_t alignment = 2 * narrow<int64_t>(ranks.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    GroupCursor cursor(ranks, g);
    for (const NamedShape& parameter : groups[g]) {
      const int64_t numel = numel_of(parameter);
      const int64_t left = cursor.available() - cursor.offset();
      if (numel > left || parameter.padding < 0 || parameter.padding > left - numel) {
        const std::string padding =
            parameter.padding == 0 ? "" : fmt::format(" and {} of padding", parameter.padding);
        throw DataError(
            fmt::format("checkpoint: parameter {} needs {} elements{} at {}, but group {} has {}",
                        parameter.name, numel, padding, cursor.offset(), g, cursor.available()));
      }
      placed.push_back({parameter, cursor.take(numel)});
      cursor.take(parameter.padding);
    }
    if (round_up(cursor.offset(), alignment) != round_up(cursor.available(), alignment)) {
      throw DataError(
          fmt::format("checkpoint: group {} has {} elements, but its parameters take {}", g,
                      cursor.available(), cursor.offset()));
    }
  }
  return placed;
}

std::vector<PlacedParameter> place_partitioned(const ParamGroups& groups,
                                               std::span<const PartitionSizes> ranks) {
  require_ranks(ranks);
  const auto world = narrow<int64_t>(ranks.size());
  int64_t available = 0;
  for (const PartitionSizes& rank : ranks) available += sum(rank);
  std::vector<PlacedParameter> placed;
  int64_t offset = 0;
  for (const auto& group : groups) {
    for (const NamedShape& parameter : group) {
      int64_t left = numel_of(parameter);
      if (left > available) {
        throw DataError(
            fmt::format("checkpoint: parameter {} has {} elements, but all ranks hold "
                        "{}",
                        parameter.name, left, available));
      }
      const int64_t share = round_up(left, world) / world;
      PlacedParameter& place = placed.emplace_back(PlacedParameter{parameter, {}});
      for (size_t r = 0; r < ranks.size(); ++r) {
        const int64_t count = std::min(share, left);
        add_runs(r, ranks[r], offset, count, place.runs);
        left -= count;
      }
      offset += share;
    }
  }
  for (size_t r = 0; r < ranks.size(); ++r) {
    if (sum(ranks[r]) == offset) continue;
    throw DataError(
        fmt::format("checkpoint: rank {} holds {} elements, but its share of the parameters is {}",
                    r, sum(ranks[r]), offset));
  }
  return placed;
}

}  // namespace ds::deepspeed
