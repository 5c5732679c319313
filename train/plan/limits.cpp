#include "train/plan/limits.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/values/count_text.h"
#include "core/values/index.h"

namespace ds {
namespace {

// "optimizer 2.00 GiB, parameters 1.00 GiB": the peak's parts that count, the largest first.
std::string parts_text(const MemoryUsage& memory) {
  std::vector<std::pair<size_t, std::string_view>> parts;
  for (int tag = 0; tag < kMemoryTags; ++tag) {
    const size_t bytes = nth(memory.tag_bytes_at_peak, tag);
    if (bytes > 0) parts.emplace_back(bytes, name_of(static_cast<MemoryTag>(tag)));
  }
  std::ranges::sort(parts, std::greater());
  std::vector<std::string> texts;
  for (const auto& [bytes, name] : parts) {
    texts.push_back(fmt::format("{} {}", name, size_text(bytes, 2)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace

void require_within(const RunPlan& plan, const MemoryLimits& limits) {
  const auto check = [](const RankPlan& one, Tier tier, size_t limit, std::string_view advice) {
    const MemoryUsage& memory = nth(one.memory, tier);
    if (memory.bytes_peak <= limit) return;
    throw ConfigError(fmt::format(
        "memory.{0}_limit: rank {1} needs {2} bytes ({3}) of the {0}'s memory at the "
        "peak, {4} more than the limit of {5} bytes: {6}; {7}",
        name_of(tier), one.ranks.front(), memory.bytes_peak, size_text(memory.bytes_peak, 2),
        size_text(memory.bytes_peak - limit, 2), limit, parts_text(memory), advice));
  };
  for (const RankPlan& one : plan.classes) {
    check(one, Tier::kDevice, limits.device,
          "use more ranks, a higher ZeRO stage, smaller micro-batches, or offload optimizer state "
          "or parameters (zero_optimization.offload_optimizer, offload_param)");
    check(one, Tier::kHost, limits.host,
          "use more ranks, a smaller offload_optimizer.ratio, a smaller sub_group_size, or offload "
          "to nvme at stage 3");
  }
}

}  // namespace ds
