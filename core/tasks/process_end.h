// When a process of this host ends, for who waits for that beside other things; and what tells it
// from a later one of the same number.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "core/files/file.h"

namespace ds {

// What proc(5) says of a process.
struct ProcessStat {
  char state = 0;        // 'Z': it has ended, and its parent has not asked how
  uint64_t started = 0;  // clock ticks since the kernel started
};
// Nothing where there is no such process. Throws IoError.
std::optional<ProcessStat> process_stat(int pid);

// A descriptor that becomes readable when the process has ended, whether or not its parent knows.
// It is the kernel's where that has pidfd_open; gVisor and some containers have not, and there a
// thread looks twenty times a second.
class ProcessEnd {
 public:
  // Nothing where there is no such process. Throws IoError, and what start_thread() throws.
  static std::optional<ProcessEnd> of(int pid);
  ProcessEnd(ProcessEnd&&) noexcept;
  ProcessEnd& operator=(ProcessEnd&&) noexcept;
  ~ProcessEnd();

  int fd() const;
  bool has_come() const;

 private:
  class Lookout;
  ProcessEnd(Fd pidfd, std::unique_ptr<Lookout> lookout);

  Fd pidfd_;
  std::unique_ptr<Lookout> lookout_;
};

}  // namespace ds
