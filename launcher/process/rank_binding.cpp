#include "launcher/process/rank_binding.h"

#include <algorithm>
#include <limits>

#include "core/status/error.h"

namespace ds {
namespace {

std::string name_of(const HostCpus& host) {
  return host.host.empty() ? "this machine" : fmt::format("host {}", host.host);
}

std::vector<std::vector<int>> narrowed(const HostCpus& host, const BindingOptions& options) {
  std::vector<std::vector<int>> slots = host.slots;
  for (std::vector<int>& slot : slots) {
    std::erase_if(slot, [&](int cpu) {
      return options.cores && std::ranges::find(*options.cores, cpu) == options.cores->end();
    });
  }
  return slots;
}

}  // namespace

RankBinding bind_ranks(const BindingOptions& options, const std::vector<HostCpus>& hosts) {
  RankBinding out;
  for (const HostCpus& host : hosts) {
    std::vector<std::vector<int>> cores;
    int threads = 0;
    if (options.bind || options.cores) {
      CorePlan plan = plan_slot_cores(host.topology, narrowed(host, options), name_of(host));
      cores = std::move(plan.cpus);
      threads = plan.cores_each;
    } else if (cores = slot_bindings(host.slots); !cores.empty()) {
      threads = threads_of_bindings(cores);
    }
    for (size_t slot = 0; options.report && slot < host.slots.size(); ++slot) {
      out.report.push_back(
          fmt::format("{} slot {}: cores {}{}", name_of(host), slot,
                      describe_cores(host.topology, cores.empty() ? host.slots[slot] : cores[slot]),
                      cores.empty() ? ", shared with the others" : ""));
    }
    if (cores.empty()) continue;
    out.threads = std::min(out.threads.value_or(threads), threads);
    out.cores[host.host] = std::move(cores);
  }
  return out;
}

std::vector<std::vector<int>> slot_bindings(const std::vector<std::vector<int>>& slot_cores) {
  const bool alike = std::ranges::all_of(
      slot_cores, [&](const auto& cores) { return cores == slot_cores.front(); });
  return alike ? std::vector<std::vector<int>>() : slot_cores;
}

int threads_of_bindings(const std::vector<std::vector<int>>& bindings) {
  int threads = std::numeric_limits<int>::max();
  for (const std::vector<int>& cores : bindings) {
    const auto sharers = std::ranges::count(bindings, cores);
    threads =
        std::min(threads, static_cast<int>(static_cast<std::ptrdiff_t>(cores.size()) / sharers));
  }
  return std::max(1, threads);
}

}  // namespace ds
