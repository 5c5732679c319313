// Whether the kernel killed a process because memory ran out, which SIGKILL alone does not say:
// counters of the cgroup and of the machine before and after, and the kernel's log where it can be
// read.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/memory/cgroup.h"

namespace ds {

struct MemoryDeath {
  bool looked = false;  // there was something to read; else nobody knows
  bool out_of_memory = false;
  std::string cgroup{};       // that was full; empty: the machine was, or which one is not known
  int64_t cgroup_limit = 0;   // bytes; 0: none, or not known
  std::string kernel_line{};  // of the kernel's log about this process
};

// Made before the processes are started, which are then in our cgroup; reads some small files of
// the kernel.
class MemoryWatch {
 public:
  MemoryWatch();
  // About a child that SIGKILL has just ended.
  MemoryDeath examine(int pid) const;

 private:
  const std::chrono::steady_clock::time_point since_;
  const MemoryCgroup group_;
  const std::optional<int64_t> machine_kills_;
};

// One record of /dev/kmsg (pure): what it says, if it says that this process was killed for memory
// at or after `since_us` of the kernel's clock.
std::optional<MemoryDeath> memory_death_in(std::string_view record, int pid, int64_t since_us);

}  // namespace ds
