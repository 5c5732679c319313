// Hostfiles (pure): one host per line, "worker-0 slots=4", blank lines and lines that begin with #
// ignored. Reads text, never files. DeepSpeed's own grammar accepts whatever follows the number of
// slots; ours does not. Ours takes what batch systems and MPI write as well: a host alone, once for
// each slot (PBS, LSF, Open MPI), "host:4" (MPICH, Intel MPI), and max_slots.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

struct Host {
  std::string name;
  int64_t slots = 0;
  // Whether a number stands in the file; else `slots` lines named this host and nothing more.
  bool slots_said = true;
  friend bool operator==(const Host&, const Host&) = default;
};
using HostPool = std::vector<Host>;  // in file order, names are unique

enum class HostDialect {
  kDeepSpeed,  // as the reference reads it: anything may follow the digits, any name without blanks
               // will do
  kDslaunch,   // names as in require_host_name, ranges "gpu[01-16]" expanded, 1 to kMaxSlots slots
               // or none, after them only "max_slots=N"; comments behind any line, in any language;
               // a byte order mark and the line ends of Windows are no part of the text
};

inline constexpr int64_t kMaxSlots = 4096;
inline constexpr size_t kMaxHostfileBytes = size_t{4} << 20;

// Throws UsageError "NAME:LINE:COLUMN: what" for a line that is none of the above, a host whose
// slots are said twice, no host at all, and in kDslaunch for files that are too large, control
// characters, and bytes beyond ASCII outside of comments.
HostPool parse_hostfile(std::string_view text, std::string_view name, HostDialect dialect);

}  // namespace ds
