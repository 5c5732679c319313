// Which rank owns which elements under ZeRO.
#include "checkpoint/deepspeed/partition.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "core/memory/rounding.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "core/values/partition.h"

namespace ds {

namespace {

void check_world(int world) {
  DS_CHECK(world >= 1, "partition: {} ranks, expected 1 or more", world);
}

std::vector<int64_t> flat_order(size_t count, int world, FlatOrder order) {
  std::vector<int64_t> result;
  const size_t stride = order == FlatOrder::kRoundRobin ? to_size(world) : 1;
  for (size_t first = 0; first < std::min(stride, count); ++first) {
    for (size_t i = first; i < count; i += stride) result.push_back(static_cast<int64_t>(i));
  }
  return result;
}

}  // namespace

FlatPartition partition_flat_group(std::span<const int64_t> numels, int world, FlatOrder order) {
  check_world(world);
  FlatPartition result;
  result.order = flat_order(numels.size(), world, order);
  for (const int64_t numel : numels) {
    DS_CHECK(numel >= 0, "partition: a parameter has {} elements", numel);
    result.numel += numel;
  }
  result.aligned_numel = round_up(result.numel, int64_t{2} * world);
  result.partition_numel = result.aligned_numel / world;
  for (int rank = 0; rank < world; ++rank) {
    const int64_t begin = result.partition_numel * rank, end = begin + result.partition_numel;
    result.paddings.push_back(std::clamp<int64_t>(end - result.numel, 0, result.partition_numel));
    std::vector<int64_t>& owned = result.owned.emplace_back();
    int64_t offset = 0, at = 0;
    for (const int64_t index : result.order) {
      const int64_t next = at + nth(numels, index);
      if (begin <= at && at < end) {
        owned.push_back(index);
      } else if (at < begin && begin < next) {
        owned.push_back(index);
        offset = begin - at;
      }
      at = next;
    }
    result.first_offset.push_back(offset);
  }
  return result;
}

ParameterPartition partition_parameter(int64_t numel, int world) {
  check_world(world);
  DS_CHECK(numel >= 0, "partition: a parameter has {} elements", numel);
  const int64_t aligned = round_up(numel, world);
  return {.partition_numel = aligned / world, .padding = aligned - numel};
}

TensorPartition partition_tensor(std::span<const int64_t> shape, int world, int rank) {
  check_world(world);
  DS_CHECK(rank >= 0 && rank < world, "partition: rank {} of {}", rank, world);
  const int64_t numel =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const std::vector<int64_t> bounds = partition_uniform(numel, world);
  const size_t r = to_size(rank);
  TensorPartition result{.start = bounds[r], .numel = bounds[r + 1] - bounds[r], .meta = {}};
  result.meta.push_back(narrow<int64_t>(shape.size()));
  result.meta.insert(result.meta.end(), shape.begin(), shape.end());
  result.meta.push_back(world);
  result.meta.push_back(rank);
  result.meta.insert(result.meta.end(), bounds.begin(), bounds.end());
  return result;
}

}  // namespace ds
