#include "launcher/process/machine.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <thread>

#include "core/values/index.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

// Containers are given a share of all cores: "max 100000" or "200000 100000" (quota, period in us).
std::optional<int> cgroup_cores() {
  std::istringstream in(system_text("/sys/fs/cgroup/cpu.max"));
  double quota = 0;
  double period = 0;
  if (!(in >> quota >> period) || period <= 0) {
    return std::nullopt;
  }
  return std::max(1, static_cast<int>(std::ceil(quota / period)));
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
  const int gpus =
      build_devices() == BuildDevices::kGpus ? narrow<int>(own_gpus(visible_gpus).names.size()) : 0;
  return {std::min(cores, cgroup_cores().value_or(cores)), gpus};
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
