#include "launcher/process/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <thread>

#include "core/index.h"
#include "proto/build_info.h"

namespace ds {
namespace {

// Containers are given a share of all cores: "max 100000" or "200000 100000" (quota, period in us).
std::optional<int> cgroup_cores() {
  std::ifstream in("/sys/fs/cgroup/cpu.max");
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period) || period <= 0) {
    return std::nullopt;
  }
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
}

int device_files() {
  constexpr std::string_view kPrefix = "nvidia";
  int count = 0;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename().string();
    int index = 0;
    const char* const end = name.data() + name.size();
    if (name.starts_with(kPrefix)) {
      const auto parsed = std::from_chars(name.data() + kPrefix.size(), end, index);
      count += parsed.ec == std::errc() && parsed.ptr == end ? 1 : 0;
    }
  }
  return count;
}

int usable_gpus(const char* visible) {
  if (!build_info().has_cuda) {
    return 0;
  }
  const int present = device_files();
  if (visible == nullptr) {
    return present;
  }
  const std::string_view list(visible);
  const auto named = list.empty() || list == "-1" ? 0 : 1 + std::ranges::count(list, ',');
  return std::min(present, static_cast<int>(named));
}

}  // namespace

std::vector<int> own_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) {
    for (int core = 0; core < CPU_SETSIZE; ++core) {
      if (CPU_ISSET(core, &mask)) cores.push_back(core);
    }
  }
  return cores;
}

Machine this_machine(const char* visible_gpus) {
  const std::vector<int> allowed = own_cores();
  const int cores = allowed.empty()
                        ? std::max(1, static_cast<int>(std::thread::hardware_concurrency()))
                        : narrow<int>(allowed.size());
  return {std::min(cores, cgroup_cores().value_or(cores)), usable_gpus(visible_gpus)};
}

WorldShape choose_shape(const Machine& machine, std::optional<int> ranks,
                        std::optional<int> threads) {
  WorldShape shape;
  if (ranks) {
    shape.ranks = *ranks;
  } else if (machine.gpus > 0) {
    shape.ranks = machine.gpus;
  } else {
    shape.ranks = std::max(std::min(machine.cores, 2), machine.cores / 2);
  }
  shape.threads = threads.value_or(std::max(1, machine.cores / shape.ranks));
  return shape;
}

}  // namespace ds
