// Capacities on the CPU: experts are shared out among the stream's threads.
#include "kernels/moe/capacity_cpu.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "core/tasks/thread_pool.h"
#include "kernels/moe/route_formula.h"

namespace ds::kernels::detail {
namespace {

// Drops all of `order` but the `capacity` best; keys are room for one each.
void drop_worst(const int32_t* order, int64_t count, const CapacityArgs& args,
                std::vector<uint64_t>& keys) {
  const auto* const priorities = args.priorities.data<float>();
  auto* const experts = args.experts.data<int32_t>();
  keys.clear();
  for (int64_t i = 0; i < count; ++i) keys.push_back(choice_key(priorities[order[i]], i));
  std::nth_element(keys.begin(), keys.begin() + args.capacity, keys.end(),
                   std::greater<uint64_t>());
  for (int64_t i = args.capacity; i < count; ++i) {
    experts[order[index_of_key(keys[to_size(i)])]] = -1;
  }
}

}  // namespace

void drop_over_capacity_cpu(Stream& stream, const CapacityArgs& args) {
  const auto* const offsets = args.offsets.data<int32_t>();
  const auto* const order = args.order.data<int32_t>();
  auto* const experts = args.experts.data<int32_t>();
  stream.pool().parallel_for(args.offsets.numel() - 1, 1, [&](int64_t begin, int64_t end) {
    std::vector<uint64_t> keys;
    for (int64_t e = begin; e < end; ++e) {
      const int64_t count = offsets[e + 1] - offsets[e];
      if (count <= args.capacity) continue;
      if (args.priorities.defined()) {
        drop_worst(order + offsets[e], count, args, keys);
        continue;
      }
      for (int64_t i = offsets[e] + args.capacity; i < offsets[e + 1]; ++i) experts[order[i]] = -1;
    }
  });
}

}  // namespace ds::kernels::detail
