// What the kernel allows a process to use of the machine's memory, and how often it has killed for
// it: cgroups of both versions, the counters of the machine. Reads files of the kernel and nothing
// else; what cannot be read is left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace ds {

struct MemoryCgroup {
  std::string name;              // as the kernel calls it: "/user.slice/job"; empty: none was found
  std::optional<int64_t> limit;  // bytes; none: no limit
  std::optional<int64_t> used;   // bytes
  std::optional<int64_t> oom_kills;  // so far
};

// Returns the group of `pid` (0: this process), which need not live when it is read again by name.
MemoryCgroup memory_cgroup_of(int pid);
// The same group, read again.
MemoryCgroup read_again(const MemoryCgroup& group);

std::optional<int64_t> machine_oom_kills();

// How much of the last 10 s nothing of a group, or of the machine, ran because all of it waited for
// memory: what a memory.high, or swap, costs.
struct MemoryPressure {
  std::string whose;                   // "cgroup /user.slice/job"; "the machine"
  double stalled_percent = 0;          // "full avg10" of its pressure file
  std::optional<int64_t> high;         // bytes: memory.high, where there is one
  std::optional<int64_t> high_events;  // how often it was exceeded so far
};
// Returns the pressure on this process: that of its cgroup if it has such a file (version 2), else
// the machine's. Nothing if the kernel does not count it.
std::optional<MemoryPressure> memory_pressure();

// Pure parts.
struct CgroupPlace {
  int version = 2;
  std::string name;
};
// The group of a controller ("memory", "pids") in the text of /proc/<pid>/cgroup; of version 1
// where that has the controller.
std::optional<CgroupPlace> controller_place(std::string_view proc_cgroup,
                                            std::string_view controller);
// The number after `key` in lines "key value" or "key: value kB" (then bytes).
std::optional<int64_t> counter(std::string_view text, std::string_view key);
// In the text of a pressure file: "full avg10=12.34 avg60=...".
std::optional<double> full_stall_percent(std::string_view text);

}  // namespace ds
