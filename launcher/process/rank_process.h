// One rank as a process of this machine: started with its orders on standard input, heard through
// pipes, killed with all it started. Whoever owns it (the launcher, or the agent of a host) decides
// where its output goes.
#pragma once

#include <poll.h>
#include <signal.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "launcher/decide/text/line_buffer.h"
#include "launcher/process/process.h"

namespace ds {

namespace control {
class Bootstrap;
}

// Once the rank has them, or somebody who starts it.
void wipe_secrets(control::Bootstrap& orders);

enum class RankStream { kOutput, kError };

struct RankProcessOptions {
  std::string program;
  std::vector<std::string> environment;  // "NAME=value"
  std::optional<int> output_fd;   // takes its standard output; none: read like standard error
  std::optional<int> control_fd;  // becomes its descriptor kControlFd
  std::vector<int> cores;         // it runs on these alone; empty: on any
  std::optional<int> memory_fd;   // it keeps its state in this (launcher/process/kept_memory.h)
};

class RankProcess {
 public:
  using Sink = std::function<void(RankStream stream, std::string_view line)>;

  static constexpr int kControlFd = 3;  // in the rank
  // Returns the number of the descriptor at which the rank finds memory_fd.
  static int memory_fd_in(const RankProcessOptions& options) {
    return options.control_fd ? kControlFd + 1 : kControlFd;
  }

  // Throws InputMissing, IoError.
  RankProcess(const RankProcessOptions& options, const control::Bootstrap& orders);

  int pid() const { return process_.pid(); }
  void add_poll_descriptors(std::vector<pollfd>& out) const;
  // Reads what there is.
  void pump(const Sink& sink);
  // The end the first time it is seen, after the last output was pumped.
  std::optional<ExitStatus> newly_ended(const Sink& sink);
  bool reported() const { return reported_; }
  void kill() noexcept { process_.signal_group(SIGKILL); }

 private:
  struct Source {
    RankStream stream = RankStream::kError;
    Fd fd;
    LineBuffer lines;
  };
  RankProcess(const RankProcessOptions& options, const control::Bootstrap& orders,
              PipeEnds orders_pipe, std::vector<PipeEnds> outputs);

  Process process_;
  Fd orders_;  // its standard input; closing it tells the rank that we are gone
  std::vector<Source> sources_;
  bool reported_ = false;
};

}  // namespace ds
