// Owned file descriptors and shared mappings, and who a process is. The building bricks of the
// process group; every system call's result is checked here, once: what the system refuses us is an
// IoError, what a peer has become is a CommError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/files/file.h"
#include "core/tasks/process_end.h"
#include "core/tasks/uninterrupted.h"

namespace ds::detail {

// [base, base + bytes) of a file, shared, read and write. Throws IoError.
class ShmMapping {
 public:
  ShmMapping(const Fd& fd, size_t bytes, const std::string& what);
  ~ShmMapping();
  ShmMapping(const ShmMapping&) = delete;  // owns address space
  ShmMapping& operator=(const ShmMapping&) = delete;
  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* base_;
  size_t bytes_;
};

// Nameless memory of a fixed size: sealed, so that no peer can shrink it under a reader (SIGBUS).
// Throws IoError.
Fd make_sealed_memory(size_t bytes, const std::string& what);
// Takes the pages of [begin, end) now, instead of a SIGBUS later. Throws IoError, also where the
// kernel has no memory for them: other processes of the host may have given some back when the
// start is tried again.
void commit_pages(const Fd& fd, size_t begin, size_t end, const std::string& what);

// A process, told apart from a later one with the same pid by when it started (clock ticks since
// boot).
struct ProcessId {
  int pid = 0;
  uint64_t started = 0;
};
ProcessId this_process();
bool is_running(const ProcessId& process);

// The end of a live process. Throws CommError when it has ended, IoError.
ProcessEnd end_of_process(const ProcessId& process, const std::string& who);

// Opens what process `of` holds as descriptor `number`; checks owner, seals and size. Throws
// CommError, IoError.
Fd open_peer_memory(const ProcessId& of, int number, size_t bytes, const std::string& who);

std::string system_error(const std::string& call);  // "shm_open: Permission denied"

}  // namespace ds::detail
