#include "launcher/decide/core_plan.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

std::vector<PhysicalCore> usable_cores(const std::vector<PhysicalCore>& topology,
                                       const std::vector<int>& allowed) {
  std::vector<PhysicalCore> usable;
  for (const PhysicalCore& core : topology) {
    PhysicalCore mine{{}, core.numa, core.package};
    std::ranges::copy_if(core.cpus, std::back_inserter(mine.cpus),
                         [&](int cpu) { return std::ranges::find(allowed, cpu) != allowed.end(); });
    if (!mine.cpus.empty()) usable.push_back(std::move(mine));
  }
  std::ranges::sort(usable, {}, [](const PhysicalCore& core) {
    return std::tuple(core.package, core.numa, core.cpus.front());
  });
  return usable;
}

std::vector<int> take(std::vector<PhysicalCore>& cores, size_t count) {
  std::vector<int> cpus;
  for (size_t i = 0; i < count; ++i) {
    cpus.insert(cpus.end(), cores[i].cpus.begin(), cores[i].cpus.end());
  }
  cores.erase(cores.begin(), cores.begin() + static_cast<std::ptrdiff_t>(count));
  std::ranges::sort(cpus);
  return cpus;
}

}  // namespace

CorePlan plan_cores(const std::vector<PhysicalCore>& topology, int ranks,
                    const std::vector<int>& allowed, const std::string& where) {
  std::vector<PhysicalCore> cores = usable_cores(topology, allowed);
  const auto wanted = to_size(ranks);
  if (ranks < 1 || cores.size() < wanted) {
    throw UsageError(
        fmt::format("{}: {} cores may be used and {} ranks want one each; use fewer ranks, "
                    "more cores, or leave out --bind-cores-to-rank",
                    where, cores.size(), ranks));
  }
  const size_t each = cores.size() / wanted;
  std::map<std::pair<int, int>, std::vector<PhysicalCore>> nodes;
  for (PhysicalCore& core : cores) nodes[{core.package, core.numa}].push_back(std::move(core));
  CorePlan plan{{}, static_cast<int>(each)};
  std::vector<PhysicalCore> left;
  for (auto& [place, there] : nodes) {
    while (there.size() >= each && plan.cpus.size() < wanted)
      plan.cpus.push_back(take(there, each));
    std::ranges::move(there, std::back_inserter(left));
  }
  while (plan.cpus.size() < wanted) plan.cpus.push_back(take(left, each));
  return plan;
}

CorePlan plan_slot_cores(const std::vector<PhysicalCore>& topology,
                         const std::vector<std::vector<int>>& slots, const std::string& where) {
  std::map<std::vector<int>, std::vector<size_t>> sharers;
  for (size_t slot = 0; slot < slots.size(); ++slot) sharers[slots[slot]].push_back(slot);
  CorePlan out;
  out.cpus.resize(slots.size());
  for (const auto& [allowed, who] : sharers) {
    CorePlan part = plan_cores(topology, narrow<int>(who.size()), allowed, where);
    for (size_t i = 0; i < who.size(); ++i) out.cpus[who[i]] = std::move(part.cpus[i]);
    out.cores_each =
        out.cores_each == 0 ? part.cores_each : std::min(out.cores_each, part.cores_each);
  }
  return out;
}

std::string core_list_text(const std::vector<int>& cores) {
  std::string text;
  for (size_t i = 0; i < cores.size();) {
    size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    text += text.empty() ? "" : ",";
    text += last == i ? fmt::format("{}", cores[i]) : fmt::format("{}-{}", cores[i], cores[last]);
    i = last + 1;
  }
  return text;
}

std::string describe_cores(const std::vector<PhysicalCore>& topology,
                           const std::vector<int>& cpus) {
  std::set<int> nodes;
  for (const PhysicalCore& core : topology) {
    const bool used = std::ranges::any_of(
        core.cpus, [&](int cpu) { return std::ranges::find(cpus, cpu) != cpus.end(); });
    if (used) nodes.insert(core.numa);
  }
  if (nodes.empty()) return core_list_text(cpus);
  return fmt::format("{} (NUMA node{} {})", core_list_text(cpus), nodes.size() > 1 ? "s" : "",
                     fmt::join(nodes, ", "));
}

}  // namespace ds
