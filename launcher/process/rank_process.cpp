#include "launcher/process/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "proto/control.pb.h"

namespace ds {
namespace {

void write_orders(int fd, const control::Bootstrap& orders) {
  std::string body = orders.SerializeAsString();
  const auto size = static_cast<uint32_t>(body.size());
  std::string message;
  message.reserve(sizeof(size) + body.size());  // no copy is left behind
  for (unsigned shift = 0; shift < 32; shift += 8) {
    message += static_cast<char>(size >> shift & 0xffU);
  }
  message += body;
  // Far below a pipe's capacity, so it is taken whole or not at all.
  const bool taken =
      write(fd, message.data(), message.size()) == static_cast<ssize_t>(message.size());
  wipe(body);
  wipe(message);
  if (!taken) {
    throw IoError(fmt::format("giving a rank its orders: {}", std::strerror(errno)));
  }
}

// A child runs where its parent may run when it is started, so the parent moves for that moment.
class BindForChildren {
 public:
  explicit BindForChildren(const std::vector<int>& cores) {
    if (cores.empty()) {
      return;
    }
    CPU_ZERO(&before_);
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    for (const int core : cores) {
      DS_CHECK(core >= 0 && core < CPU_SETSIZE, "binding: core {} cannot be", core);
      CPU_SET(core, &wanted);
    }
    if (sched_getaffinity(0, sizeof(before_), &before_) != 0 ||
        sched_setaffinity(0, sizeof(wanted), &wanted) != 0) {
      throw IoError(fmt::format("binding a rank to cores {}: {}", fmt::join(cores, ","),
                                std::strerror(errno)));
    }
    bound_ = true;
  }
  BindForChildren(const BindForChildren&) = delete;  // undoes what it did, once
  BindForChildren& operator=(const BindForChildren&) = delete;
  ~BindForChildren() {
    if (bound_) {
      sched_setaffinity(0, sizeof(before_), &before_);
    }
  }

 private:
  cpu_set_t before_{};
  bool bound_ = false;
};

SpawnOptions spawn_options(const RankProcessOptions& options, int orders,
                           const std::vector<PipeEnds>& outputs) {
  SpawnOptions spawn;
  spawn.program = options.program;
  spawn.arguments = {"--from-stdin"};
  spawn.environment = options.environment;
  spawn.descriptors = {{STDIN_FILENO, orders},
                       {STDOUT_FILENO, options.output_fd.value_or(outputs.back().write.get())},
                       {STDERR_FILENO, outputs.front().write.get()}};
  if (options.control_fd) {
    spawn.descriptors[RankProcess::kControlFd] = *options.control_fd;
  }
  if (options.memory_fd) {
    spawn.descriptors[RankProcess::memory_fd_in(options)] = *options.memory_fd;
  }
  return spawn;
}

// Standard error, and standard output where nobody else takes it.
std::vector<PipeEnds> output_pipes(const RankProcessOptions& options) {
  std::vector<PipeEnds> pipes;
  pipes.push_back(make_pipe());
  if (!options.output_fd) {
    pipes.push_back(make_pipe());
  }
  return pipes;
}

Process start_bound(const std::vector<int>& cores, const SpawnOptions& options) {
  const BindForChildren bound(cores);
  return Process(options);
}

}  // namespace

void wipe_secrets(control::Bootstrap& orders) {
  wipe(*orders.mutable_token());
  wipe(*orders.mutable_private_key());
}

RankProcess::RankProcess(const RankProcessOptions& options, const control::Bootstrap& orders)
    : RankProcess(options, orders, make_pipe(), output_pipes(options)) {}

RankProcess::RankProcess(const RankProcessOptions& options, const control::Bootstrap& orders,
                         PipeEnds orders_pipe, std::vector<PipeEnds> outputs)
    : process_(start_bound(options.cores, spawn_options(options, orders_pipe.read.get(), outputs))),
      orders_(std::move(orders_pipe.write)) {
  write_orders(orders_.get(), orders);
  for (PipeEnds& pipe : outputs) {
    fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
    sources_.push_back({sources_.empty() ? RankStream::kError : RankStream::kOutput,
                        std::move(pipe.read), LineBuffer()});
  }
}

void RankProcess::add_poll_descriptors(std::vector<pollfd>& out) const {
  if (!reported_) {
    out.push_back({process_.end_fd(), POLLIN, 0});
  }
  for (const Source& source : sources_) {
    if (source.fd.valid()) {
      out.push_back({source.fd.get(), POLLIN, 0});
    }
  }
}

void RankProcess::pump(const Sink& sink) {
  std::array<char, 16384> bytes{};
  for (Source& source : sources_) {
    const auto take_line = [&](std::string_view line) { sink(source.stream, line); };
    while (source.fd.valid()) {
      const ssize_t got = read(source.fd.get(), bytes.data(), bytes.size());
      if (got > 0) {
        source.lines.feed({bytes.data(), to_size(got)}, take_line);
      } else if (got == 0) {
        source.lines.finish(take_line);
        source.fd = Fd();
      } else if (errno != EINTR) {
        break;  // nothing more for now
      }
    }
  }
}

std::optional<ExitStatus> RankProcess::newly_ended(const Sink& sink) {
  const std::optional<ExitStatus> status = reported_ ? std::nullopt : process_.try_wait();
  if (status) {
    reported_ = true;
    pump(sink);
  }
  return status;
}

}  // namespace ds
