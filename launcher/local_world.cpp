#include "launcher/local_world.h"

#include <fcntl.h>
#include <signal.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "proto/control.pb.h"

namespace ds {
namespace {

constexpr int kControlFd = 3;  // in the rank
constexpr size_t kLongestLine = 64 << 10;

void write_orders(int fd, const control::Bootstrap& orders) {
  const std::string body = orders.SerializeAsString();
  const auto size = static_cast<uint32_t>(body.size());
  std::string message;
  for (unsigned shift = 0; shift < 32; shift += 8) {
    message += static_cast<char>(size >> shift & 0xffU);
  }
  message += body;
  // Far below a pipe's capacity, so it is taken whole or not at all.
  if (write(fd, message.data(), message.size()) != static_cast<ssize_t>(message.size())) {
    throw IoError(fmt::format("giving a rank its orders: {}", std::strerror(errno)));
  }
}

}  // namespace

void LineBuffer::feed(std::string_view bytes, const Sink& sink) {
  rest_ += bytes;
  size_t begin = 0;
  for (size_t end = rest_.find('\n'); end != std::string::npos; end = rest_.find('\n', begin)) {
    sink(std::string_view(rest_).substr(begin, end - begin));
    begin = end + 1;
  }
  rest_.erase(0, begin);
  if (rest_.size() > kLongestLine) {
    finish(sink);
  }
}

void LineBuffer::finish(const Sink& sink) {
  if (!rest_.empty()) {
    sink(rest_);
    rest_.clear();
  }
}

LocalWorld::LocalWorld(const Options& options, const WorldPlan& plan,
                       const RunDirectory& directory) {
  for (int rank = 0; rank < static_cast<int>(plan.ranks.size()); ++rank) {
    ranks_.push_back(start(rank, options, plan, directory));
  }
}

LocalWorld::Rank LocalWorld::start(int rank, const Options& options, const WorldPlan& plan,
                                   const RunDirectory& directory) {
  AppendFile log(directory.rank_log(rank));
  const Fd log_copy = duplicate_high(log.fd());
  PipeEnds orders = make_pipe();
  PipeEnds output = make_pipe();
  SocketEnds control = make_socket_pair();
  SpawnOptions spawn;
  spawn.program = options.program;
  spawn.arguments = {"--from-stdin"};
  spawn.environment = options.environment;
  spawn.descriptors = {{STDIN_FILENO, orders.read.get()},
                       {STDOUT_FILENO, log_copy.get()},
                       {STDERR_FILENO, output.write.get()},
                       {kControlFd, control.theirs.get()}};
  Process process(spawn);

  control::Bootstrap bootstrap;
  bootstrap.set_coordinator_address(fmt::format("fd:{}", kControlFd));
  bootstrap.set_token(plan.tokens.at(static_cast<size_t>(rank)));
  bootstrap.set_rank(rank);
  bootstrap.set_world_size(static_cast<int>(plan.ranks.size()));
  bootstrap.set_epoch(plan.epoch);
  bootstrap.set_run_dir(directory.path().string());
  bootstrap.set_launcher_pid(getpid());
  bootstrap.set_config_digest(options.config_digest);
  write_orders(orders.write.get(), bootstrap);
  fcntl(output.read.get(), F_SETFL, O_NONBLOCK);
  return {std::move(process),     std::move(orders.write), std::move(control.ours),
          std::move(output.read), std::move(log),          LineBuffer(),
          false};
}

std::string LocalWorld::describe(int rank) const {
  return fmt::format("pid {}", ranks_.at(static_cast<size_t>(rank)).process.pid());
}

std::vector<Fd> LocalWorld::take_connections() {
  std::vector<Fd> connections;
  for (Rank& rank : ranks_) {
    connections.push_back(std::move(rank.connection));
  }
  return connections;
}

void LocalWorld::add_poll_descriptors(std::vector<pollfd>& out) const {
  for (const Rank& rank : ranks_) {
    if (!rank.reported) {
      out.push_back({rank.process.pidfd(), POLLIN, 0});
    }
    if (rank.output) {
      out.push_back({rank.output.get(), POLLIN, 0});
    }
  }
}

void LocalWorld::pump(const RankSink& sink) {
  for (int rank = 0; rank < size(); ++rank) {
    pump_one(rank, ranks_[static_cast<size_t>(rank)], sink);
  }
}

void LocalWorld::pump_one(int number, Rank& rank, const RankSink& sink) {
  std::array<char, 16384> bytes{};
  const auto take_line = [&](std::string_view line) {
    try {
      rank.log.append(fmt::format("{}\n", line));
    } catch (const IoError&) {
      // A log that cannot be written must not end training; the user sees the line all the same.
    }
    sink(number, line);
  };
  while (rank.output) {
    const ssize_t got = read(rank.output.get(), bytes.data(), bytes.size());
    if (got > 0) {
      rank.lines.feed({bytes.data(), static_cast<size_t>(got)}, take_line);
    } else if (got == 0) {
      rank.lines.finish(take_line);
      rank.output.reset();
    } else if (errno != EINTR) {
      return;  // nothing more for now
    }
  }
}

std::optional<ExitStatus> LocalWorld::newly_ended(int rank, const RankSink& sink) {
  Rank& state = ranks_.at(static_cast<size_t>(rank));
  const std::optional<ExitStatus> status = state.reported ? std::nullopt : state.process.try_wait();
  if (status) {
    state.reported = true;
    pump_one(rank, state, sink);
  }
  return status;
}

void LocalWorld::kill_all() {
  for (Rank& rank : ranks_) {
    rank.process.signal_group(SIGKILL);
  }
}

}  // namespace ds
