#include "launcher/decide/devices/device_choice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/amounts.h"

namespace ds {
namespace {

std::optional<int64_t> as_number(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// UUIDs may be cut short. Parts of a GPU have their own, which only CUDA can look up.
bool names_one_of(const std::vector<PresentGpu>& present, std::string_view name) {
  if (const std::optional<int64_t> index = as_number(name)) {
    return std::ranges::any_of(present, [&](const PresentGpu& gpu) { return gpu.index == *index; });
  }
  if (name.starts_with("MIG-")) return !present.empty();
  return name.starts_with("GPU-") && std::ranges::any_of(present, [&](const PresentGpu& gpu) {
           return gpu.uuid.empty() || gpu.uuid.starts_with(name);
         });
}

std::string on_host(const std::string& host) {
  return host.empty() ? "this machine" : fmt::format("host {}", host);
}

std::string why_none(const HostGpus& host) {
  return fmt::format("{} has no GPU to use ({})", on_host(host.host), host.all.why_none);
}

// What each slot was given where that differs, else one list for all.
std::vector<std::string> pool_of(const HostGpus& host) {
  if (host.of_slots.empty()) return host.all.names;
  std::vector<std::string> firsts;
  for (const std::vector<std::string>& own : host.of_slots) {
    firsts.push_back(own.empty() ? "" : own.front());
  }
  const std::set<std::string> different(firsts.begin(), firsts.end());
  return different.size() == firsts.size() && !different.contains("") ? firsts
                                                                      : host.of_slots.front();
}

bool all_named(const std::vector<std::string>& pool, const std::vector<int64_t>& slots) {
  return std::ranges::all_of(slots, [&](int64_t slot) {
    return std::ranges::find(pool, std::to_string(slot)) != pool.end();
  });
}

[[noreturn]] void refuse_few(const HostGpus& host, const std::vector<std::string>& pool,
                             const std::vector<int64_t>& slots) {
  throw Error(
      ExitCode::kClusterUnusable,
      fmt::format("{} is to have a GPU for each of its {} (slots {}), and has {}: {}; fewer "
                  "ranks, --share-gpus, which puts several on one, or --device cpu",
                  on_host(host.host), format_count(narrow<int64_t>(slots.size()), "rank"),
                  fmt::join(slots, ","), pool.size(), fmt::join(pool, ",")));
}

// Who starts one dslaunch on each host, as for torchrun, has one rank there, and may not mean it.
void note_idle(const HostGpus& host, const std::vector<std::string>& used,
               std::vector<std::string>& notes) {
  std::set<std::string> given;
  for (const std::vector<std::string>& own : host.of_slots) given.insert(own.begin(), own.end());
  const std::set<std::string> busy(used.begin(), used.end());
  if (given.size() <= busy.size()) return;
  notes.push_back(fmt::format(
      "{}: {} of {} stay idle, because each dslaunch that was started is one rank; start one for "
      "each GPU (srun --ntasks-per-node={}), or one alone that is told its hosts",
      on_host(host.host), given.size() - busy.size(),
      format_count(narrow<int64_t>(given.size()), "GPU"), given.size()));
}

std::vector<std::string> gpus_of_slots(const HostGpus& host, const std::vector<int64_t>& slots,
                                       GpuSharing sharing, std::vector<std::string>& notes) {
  const std::vector<std::string> pool = pool_of(host);
  if (pool.empty()) throw Error(ExitCode::kClusterUnusable, why_none(host));
  const auto size = narrow<int64_t>(pool.size());
  std::vector<std::string> out;
  const bool positions = std::ranges::all_of(slots, [&](int64_t slot) { return slot < size; });
  if (!positions && all_named(pool, slots)) {
    for (const int64_t slot : slots) out.push_back(std::to_string(slot));
    return out;
  }
  if (!positions && sharing == GpuSharing::kRefused) refuse_few(host, pool, slots);
  for (const int64_t slot : slots) out.push_back(pool[to_size(slot % size)]);
  const std::set<std::string> used(out.begin(), out.end());
  if (used.size() < out.size()) {
    notes.push_back(
        fmt::format("{}: {} share {}; what they send each other goes through host memory",
                    on_host(host.host), format_count(narrow<int64_t>(out.size()), "rank"),
                    format_count(narrow<int64_t>(used.size()), "GPU")));
  }
  note_idle(host, out, notes);
  return out;
}

std::vector<int64_t> slots_on(const std::vector<RankPlacement>& ranks, const std::string& host) {
  std::vector<int64_t> slots;
  for (const RankPlacement& place : ranks) {
    if (place.host == host) slots.push_back(place.slot);
  }
  return slots;
}

RankDevices on_cpu(std::string note) {
  RankDevices out;
  if (!note.empty()) out.notes.push_back(std::move(note));
  return out;
}

}  // namespace

VisibleGpus visible_gpus(const std::vector<PresentGpu>& present, const char* variable) {
  VisibleGpus out;
  if (present.empty()) {
    out.why_none = "no NVIDIA driver shows one: no /dev/nvidia0";
    return out;
  }
  if (variable == nullptr) {
    for (const PresentGpu& gpu : present) out.names.push_back(std::to_string(gpu.index));
    return out;
  }
  for (std::string_view rest(variable); !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string name(trimmed(rest.substr(0, comma)));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const bool again = std::ranges::find(out.names, name) != out.names.end();
    if (again || !names_one_of(present, name)) break;
    out.names.push_back(name);
  }
  if (out.names.empty()) out.why_none = fmt::format("CUDA_VISIBLE_DEVICES is '{}'", variable);
  return out;
}

void require_device(DeviceWish wish, BuildDevices build) {
  if (wish == DeviceWish::kCuda && build == BuildDevices::kNone) {
    throw Unsupported(
        "--device cuda: this build cannot train on GPUs; configure one with DS_WITH_CUDA=ON, or "
        "leave --device out");
  }
}

RankDevices choose_device(DeviceWish wish, BuildDevices build, const std::vector<HostGpus>& hosts) {
  require_device(wish, build);
  if (wish == DeviceWish::kCpu) return {};
  if (build == BuildDevices::kEmulated) {
    if (wish == DeviceWish::kAuto) return {};
    return {.device = Device::cuda(0), .notes = {"ranks compute on the emulated device"}};
  }
  std::vector<const HostGpus*> without;
  for (const HostGpus& host : hosts) {
    if (host.all.names.empty()) without.push_back(&host);
  }
  const bool none = without.size() == hosts.size();
  if (none && wish == DeviceWish::kAuto) return {};
  if (build == BuildDevices::kNone) {
    return on_cpu(
        "ranks compute on the CPU although there are GPUs: this build cannot train on "
        "them (DS_WITH_CUDA)");
  }
  if (!without.empty()) {
    std::vector<std::string> whys;
    for (const HostGpus* host : without) whys.push_back(why_none(*host));
    throw Error(ExitCode::kClusterUnusable,
                fmt::format("{}; {}--device cpu", fmt::join(whys, "; "),
                            none ? "see `dslaunch env`, or choose " : "leave it out, or choose "));
  }
  return {.device = Device::cuda(0), .notes = {"ranks compute on GPUs"}};
}

RankDevices place_on_gpus(const std::vector<RankPlacement>& ranks,
                          const std::vector<HostGpus>& hosts, GpuSharing sharing) {
  RankDevices out{.device = Device::cuda(0)};
  out.gpus.resize(ranks.size());
  for (const HostGpus& host : hosts) {
    const std::vector<std::string> gpus =
        gpus_of_slots(host, slots_on(ranks, host.host), sharing, out.notes);
    size_t next = 0;
    for (size_t rank = 0; rank < ranks.size(); ++rank) {
      if (ranks[rank].host == host.host) out.gpus[rank] = gpus.at(next++);
    }
  }
  return out;
}

std::vector<std::string> gpu_variables(std::string_view name) {
  std::vector<std::string> out{fmt::format("CUDA_VISIBLE_DEVICES={}", name)};
  if (as_number(name)) out.emplace_back("CUDA_DEVICE_ORDER=PCI_BUS_ID");
  return out;
}

}  // namespace ds
