// Who may launch in a run directory (pure): what the lease file says, and what a launcher that
// finds it may do. Only one launcher works in a run directory at a time, also where several hosts
// share it. Its lease is taken over when it is provably gone: it has said so, or the kernel that it
// ran under says so, or, where that is another machine's, the lease is not renewed any more. The
// last is a proof only together with the rest: a launcher that cannot renew its lease finds another
// one's in its place before it does anything, and what its ranks still write is shut out by the
// epoch (checkpoint/commit.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "launcher/decide/text/clock_time.h"

namespace ds {

inline constexpr Time kLeaseRenewal = std::chrono::seconds(2);
inline constexpr Time kLeasePatience = std::chrono::seconds(15);  // with a lease of another machine

struct Lease {
  std::string token;  // random, of this launch alone
  std::string host;
  int64_t pid = 0;
  int64_t process_start = 0;  // in clock ticks since the kernel started: pids are used again
  std::string kernel;         // which has started that often: the boot id
  std::string pid_namespace;  // in which the pid means something
  std::string since;          // wall clock, for people
  int64_t renewals = 0;
  bool over = false;             // the launcher has ended
  std::optional<int> exit_code;  // with this
  bool operator==(const Lease&) const = default;
};

// Always the same number of bytes, so that renewing needs no room on the disk.
inline constexpr size_t kLeaseBytes = 1024;
std::string to_text(const Lease& lease);
// Nothing for what is none, such as a line torn by a crash.
std::optional<Lease> parse_lease(std::string_view text);
// Whether what stands in the lease file is another launcher's word, not ours or a torn one of ours.
bool is_anothers(std::string_view text, const Lease& ours);
// "dslaunch, pid 4711 on node-1, since 2026-11-22 10:31:05"
std::string describe(const Lease& lease);

// What the file system says about the lock that a launcher keeps on its lease.
enum class LeaseLock {
  kOurs,         // nobody has it
  kHeld,         // somebody has, on this machine or another
  kUnsupported,  // this file system has no locks
};

// What a launcher knows of itself and, on its own machine, of the holder.
struct LeaseWitness {
  std::string kernel;
  std::string pid_namespace;
  // A process of the lease's pid and start, where kernel and namespace are ours.
  bool holder_runs = false;
};

class LeaseContest {
 public:
  enum class Verdict { kTake, kRefuse, kWatch };  // kWatch: look again soon
  // `text`: what stands in the lease file; empty where there is none.
  Verdict look(Time now, LeaseLock lock, std::string_view text, const LeaseWitness& witness);

 private:
  std::optional<std::string> seen_;  // what stood there when the watch began
  Time watched_since_{};
};

}  // namespace ds
