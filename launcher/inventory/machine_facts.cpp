#include "launcher/inventory/machine_facts.h"

#include <fmt/ranges.h>
#include <gnu/libc-version.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <sstream>

#include "core/memory/cgroup.h"
#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/values/index.h"
#include "launcher/agents/host_probe.h"
#include "launcher/process/addresses.h"
#include "launcher/process/files/input_file.h"
#include "launcher/process/machine.h"
#include "launcher/process/machine_cores.h"
#include "launcher/report/gpu_text.h"
#include "launcher/report/progress.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// The text behind `name` and `separator` in the first such line of a file of the kernel's or the
// distribution's kind.
std::optional<std::string> field_of(const std::string& path, std::string_view name,
                                    char separator) {
  std::istringstream in(system_text(path));
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos || !line.starts_with(name)) continue;
    if (line.find_first_not_of(" \t", name.size()) != at) continue;  // a longer name
    const size_t begin = line.find_first_not_of(" \t\"", at + 1);
    if (begin == std::string::npos) return std::nullopt;
    return line.substr(begin, line.find_last_not_of(" \t\"") + 1 - begin);
  }
  return std::nullopt;
}

Fact known_or(std::string key, std::optional<std::string> value, const std::string& source) {
  if (value) return {.key = std::move(key), .value = std::move(*value)};
  return {.key = std::move(key), .note = fmt::format("{} does not say", source)};
}

Fact bytes(std::string key, std::optional<int64_t> value, std::string note) {
  Fact fact{.key = std::move(key), .note = std::move(note), .unit = FactUnit::kBytes};
  if (value) fact.value = *value;
  return fact;
}

// Lists the instruction sets that the kernel names and that matter to training.
Fact instructions() {
#if defined(__x86_64__)
  constexpr std::array kWanted{"avx2",        "avx512f",  "avx512_bf16",
                               "avx512_fp16", "amx_tile", "amx_bf16"};
  const auto flags = field_of("/proc/cpuinfo", "flags", ':');
#else
  constexpr std::array kWanted{"asimd", "bf16", "sve", "sve2"};
  const auto flags = field_of("/proc/cpuinfo", "Features", ':');
#endif
  if (!flags) return known_or("instructions", std::nullopt, "/proc/cpuinfo");
  std::istringstream words(*flags);
  const std::set<std::string> listed{std::istream_iterator<std::string>(words), {}};
  std::string out;
  for (const char* const wanted : kWanted) {
    if (listed.contains(wanted)) out += (out.empty() ? "" : " ") + std::string(wanted);
  }
  return {.key = "instructions", .value = out.empty() ? "none of those that help" : out};
}

std::vector<Fact> topology() {
  try {
    const std::vector<PhysicalCore> cores = machine_cores();
    std::set<int> nodes;
    std::set<int> packages;
    for (const PhysicalCore& core : cores) {
      nodes.insert(core.numa);
      packages.insert(core.package);
    }
    return {{.key = "physical_cores",
             .value = narrow<int64_t>(cores.size()),
             .note = "that this process may use"},
            {.key = "packages", .value = narrow<int64_t>(packages.size())},
            {.key = "memory_nodes", .value = narrow<int64_t>(nodes.size())}};
  } catch (const Error& error) {
    return {{.key = "physical_cores", .note = error.what()}};
  }
}

Fact limit(std::string key, const agent::Limit& limits, FactUnit unit) {
  Fact fact{.key = std::move(key), .value = std::string("unlimited"), .unit = unit};
  if (limits.soft() >= 0) fact.value = limits.soft();
  if (limits.hard() < 0) {
    fact.note = "hard limit: none";
  } else {
    fact.note =
        fmt::format("hard limit {}", unit == FactUnit::kBytes ? format_bytes(limits.hard())
                                                              : std::to_string(limits.hard()));
  }
  return fact;
}

// What the kernel's driver shows where NVML does not answer.
void add_kernel_facts(FactGroup& group, const std::string& problem) {
  std::error_code none;
  int64_t count = 0;
  for (const auto& entry : fs::directory_iterator("/proc/driver/nvidia/gpus", none)) {
    const auto model = field_of((entry.path() / "information").string(), "Model", ':');
    group.facts.push_back(known_or(fmt::format("gpu_{}", count++), model, entry.path().string()));
  }
  if (none) {
    group.facts.push_back({.key = "nvidia_driver", .value = false, .note = problem});
  } else {
    group.facts.push_back(known_or("nvidia_driver",
                                   field_of("/proc/driver/nvidia/version", "NVRM version", ':'),
                                   "/proc/driver/nvidia/version"));
  }
  group.facts.push_back({.key = "count", .value = count});
}

std::string use_of(const GpuState& gpu, const std::vector<std::string>& visible,
                   BuildDevices build) {
  if (!gpu.problem.empty()) return "not used: " + gpu.problem;
  const bool named = std::ranges::any_of(visible, [&](const std::string& name) {
    const bool is_part = gpu.uuid.starts_with("MIG-");
    const GpuReport alone{.gpus = {gpu}};
    return is_part ? gpu.uuid.starts_with(name) : find_gpu(alone, name) != nullptr;
  });
  if (!named) {
    return gpu.uuid.starts_with("MIG-") ? "not used: CUDA_VISIBLE_DEVICES does not name it"
                                        : "not used: CUDA_VISIBLE_DEVICES leaves it out";
  }
  switch (build) {
    case BuildDevices::kNone:
      return "not used: this build cannot train on GPUs (DS_WITH_CUDA)";
    case BuildDevices::kEmulated:
      return "not used: this build emulates GPUs (DS_WITH_CUDA)";
    case BuildDevices::kGpus:
      break;
  }
  return "used by ranks";
}

}  // namespace

agent::Facts probe_this_machine() {
  agent::Probe order;
  order.set_step(agent::Probe::COLLECT);
  return HostProbe(VisibleGpus()).execute(order, wall_clock_us());
}

FactGroup system_facts() {
  utsname kernel{};
  const bool asked = uname(&kernel) == 0;
  return {
      "system",
      {{.key = "host", .value = own_host_name()},
       known_or("distribution", field_of("/etc/os-release", "PRETTY_NAME", '='), "/etc/os-release"),
       known_or("kernel",
                asked ? std::optional(
                            fmt::format("{} {} {}", kernel.sysname, kernel.release, kernel.machine))
                      : std::nullopt,
                "uname"),
       {.key = "c_library", .value = fmt::format("glibc {}", gnu_get_libc_version())}}};
}

FactGroup cpu_facts() {
  const Machine machine = this_machine(nullptr);
  FactGroup group{
      "cpu", {known_or("model", field_of("/proc/cpuinfo", "model name", ':'), "/proc/cpuinfo")}};
  group.facts.push_back(
      {.key = "cores",
       .value = int64_t{machine.cores},
       .note = "that ranks may use: affinity mask and the control group's quota"});
  for (Fact& fact : topology()) group.facts.push_back(std::move(fact));
  group.facts.push_back(instructions());
  return group;
}

FactGroup gpu_facts(const GpuReport& report, BuildDevices build, const char* visible) {
  FactGroup group{"gpus", {}};
  if (!report.problem.empty()) {
    add_kernel_facts(group, report.problem);
    return group;
  }
  std::vector<PresentGpu> present;
  for (const GpuState& gpu : report.gpus) present.push_back({gpu.index, gpu.uuid});
  const std::vector<std::string> names = visible_gpus(present, visible).names;
  const auto add = [&](std::string key, const GpuState& gpu) {
    std::vector<std::string> notes;
    for (std::string note : {gpu.uuid, gpu_figures_text(gpu.figures), use_of(gpu, names, build)}) {
      if (!note.empty()) notes.push_back(std::move(note));
    }
    Fact& fact = group.facts.emplace_back(
        Fact{.key = std::move(key), .note = fmt::format("{}", fmt::join(notes, "; "))});
    if (!gpu.name.empty()) fact.value = gpu.name;
  };
  for (const GpuState& gpu : report.gpus) {
    add(fmt::format("gpu_{}", gpu.index), gpu);
    for (size_t part = 0; part < gpu.parts.size(); ++part) {
      add(fmt::format("gpu_{}_part_{}", gpu.index, part), gpu.parts[part]);
    }
  }
  group.facts.push_back({.key = "nvidia_driver", .value = report.driver});
  group.facts.push_back({.key = "count", .value = narrow<int64_t>(report.gpus.size())});
  return group;
}

FactGroup memory_facts(const agent::Facts& probed) {
  struct sysinfo info {};
  const bool asked = sysinfo(&info) == 0;
  const MemoryCgroup cgroup = memory_cgroup_of(0);
  FactGroup group{"memory", {}};
  group.facts.push_back(bytes(
      "total",
      asked ? std::optional(static_cast<int64_t>(info.totalram * info.mem_unit)) : std::nullopt,
      asked ? "" : "sysinfo failed"));
  group.facts.push_back(
      bytes("available",
            probed.memory_available() > 0 ? std::optional(probed.memory_available()) : std::nullopt,
            probed.memory_available() > 0 ? "of " + probed.memory_bound()
                                          : "/proc/meminfo does not say"));
  if (cgroup.name.empty()) {
    group.facts.push_back({.key = "cgroup", .note = "no control group for memory was found"});
  } else {
    group.facts.push_back({.key = "cgroup", .value = cgroup.name});
    group.facts.push_back(cgroup.limit ? bytes("cgroup_limit", cgroup.limit, "")
                                       : Fact{.key = "cgroup_limit", .value = std::string("none")});
  }
  return group;
}

FactGroup limit_facts(const agent::Facts& probed) {
  FactGroup group{"limits",
                  {limit("open_files", probed.open_files(), FactUnit::kPlain),
                   limit("processes", probed.processes(), FactUnit::kPlain),
                   limit("locked_memory", probed.locked_memory(), FactUnit::kBytes)}};
  if (probed.has_cgroup_tasks()) {
    const agent::TaskLimit& tasks = probed.cgroup_tasks();
    group.facts.push_back(
        {.key = "cgroup_processes",
         .value = tasks.most(),
         .note = fmt::format("pids.max of cgroup {}, which has {}", tasks.name(), tasks.used())});
  }
  if (probed.shared_memory_error().empty()) {
    group.facts.push_back(bytes("dev_shm_total", probed.shared_memory_total(), ""));
    group.facts.push_back(bytes("dev_shm_free", probed.shared_memory_free(), ""));
  } else {
    group.facts.push_back(
        {.key = "dev_shm_total", .note = "/dev/shm: " + probed.shared_memory_error()});
  }
  return group;
}

std::vector<InterfaceFact> network_facts() {
  std::vector<InterfaceFact> out;
  for (NetworkAddress& address : network_addresses()) {
    auto at = std::ranges::find(out, address.interface, &InterfaceFact::name);
    if (at == out.end()) {
      at = out.insert(out.end(), {address.interface, {}});
      std::istringstream speed(
          system_text(fmt::format("/sys/class/net/{}/speed", address.interface)));
      int64_t megabits = 0;
      if (speed >> megabits && megabits > 0) at->megabits = megabits;
    }
    at->addresses.push_back(std::move(address.address));
  }
  return out;
}

}  // namespace ds
