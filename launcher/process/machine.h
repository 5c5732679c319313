// What this machine offers, and how many ranks and threads that suggests.
#pragma once

#include <optional>
#include <vector>

namespace ds {

struct Machine {
  int cores = 1;  // that we may use: affinity mask and cgroup quota
  int gpus = 0;   // that this build can use
};

// The cores that this process may use, by number; empty where the kernel does not say.
std::vector<int> own_cores();

// `visible_gpus` is CUDA_VISIBLE_DEVICES, null where it is not set.
Machine this_machine(const char* visible_gpus);

struct WorldShape {
  int ranks = 1;
  int threads = 1;  // per rank
};

// Ranks: as asked, else the GPUs, else one per 2 cores but at least 2 where there are 2 cores.
// Threads: as asked, else an equal share of the cores, at least 1.
WorldShape choose_shape(const Machine& machine, std::optional<int> ranks,
                        std::optional<int> threads);

}  // namespace ds
