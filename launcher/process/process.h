// One child process: started with posix_spawn, waited for beside other descriptors, killed with its
// group.
// Refuses to leave anything behind: destroying a Process kills and reaps it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "core/tasks/process_end.h"

namespace ds {

// How a process ended.
struct ExitStatus {
  int code = 0;    // meaningful where signal == 0
  int signal = 0;  // that killed it, 0 if it returned
};

// "exited with code 1", "was killed by signal 9 (Killed)"
std::string describe(const ExitStatus& status);

// What a child gets. Descriptors are duplicated to their numbers, which should leave no
// gap from 0 on; everything above the highest is closed.
struct SpawnOptions {
  std::string program;                   // path; no shell and no PATH search
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // "NAME=value"
  std::map<int, int> descriptors;        // number in the child -> ours
};

class Process {
 public:
  // Starts the program as the leader of a new process group, with default signal handling.
  // Throws InputMissing if the program cannot be executed, Error(kClusterUnusable) where no further
  // process may be started, IoError for other failures.
  explicit Process(const SpawnOptions& options);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  int pid() const { return pid_; }
  int end_fd() const { return end_->fd(); }  // becomes readable when the process has ended

  // Reaps the process if it has ended. The same answer ever after.
  std::optional<ExitStatus> try_wait();
  ExitStatus wait();

  // To the process and whatever it started. Nothing happens once it is reaped.
  void signal_group(int signal) noexcept;

 private:
  int pid_ = -1;
  std::optional<ProcessEnd> end_;
  std::optional<ExitStatus> ended_;
};

// Both ends close on exec and lie above the standard descriptors. Throw IoError.
struct PipeEnds {
  Fd read;
  Fd write;
};
PipeEnds make_pipe();
struct SocketEnds {
  Fd ours;
  Fd theirs;
};
SocketEnds make_socket_pair();
Fd duplicate_high(int fd);  // a copy that closes on exec and lies above the standard descriptors

// Opens 0, 1 and 2 on /dev/null where the caller's parent had closed them.
void ensure_standard_descriptors();

// The first folder of `path` (as in PATH, empty entries passed over) that has the program; "" where
// none has.
std::string find_on_path(std::string_view path, std::string_view name);

}  // namespace ds
