#include "launcher/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"

namespace ds {
namespace {

constexpr int kFirstFree = 16;  // our ends lie above every number that a child is given

[[noreturn]] void throw_errno(const char* operation, int error) {
  throw IoError(fmt::format("{}: {}", operation, std::strerror(error)));
}

// Takes `fd` over.
Fd above_standard(int fd) {
  const Fd low(fd);
  return duplicate_high(fd);
}

// The pieces of posix_spawn that must be destroyed.
class SpawnPlan {
 public:
  explicit SpawnPlan(const SpawnOptions& options) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    int highest = -1;
    for (const auto& [theirs, ours] : options.descriptors) {
      posix_spawn_file_actions_adddup2(&actions_, ours, theirs);
      highest = std::max(highest, theirs);
    }
    posix_spawn_file_actions_addclosefrom_np(&actions_, highest + 1);
    sigset_t signals;
    sigemptyset(&signals);
    posix_spawnattr_setsigmask(&attributes_, &signals);
    sigfillset(&signals);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setflags(
        &attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;  // the C structures own memory
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> out;
  for (std::string& s : strings) {
    out.push_back(s.data());
  }
  out.push_back(nullptr);
  return out;
}

ExitStatus from_siginfo(const siginfo_t& info) {
  return info.si_code == CLD_EXITED ? ExitStatus{info.si_status, 0} : ExitStatus{0, info.si_status};
}

}  // namespace

std::string describe(const ExitStatus& status) {
  return status.signal == 0
             ? fmt::format("exited with code {}", status.code)
             : fmt::format("was killed by signal {} ({})", status.signal, strsignal(status.signal));
}

Process::Process(const SpawnOptions& options) {
  std::vector<std::string> arguments{options.program};
  arguments.insert(arguments.end(), options.arguments.begin(), options.arguments.end());
  std::vector<std::string> environment = options.environment;
  const SpawnPlan plan(options);
  const int error = posix_spawn(&pid_, options.program.c_str(), plan.actions(), plan.attributes(),
                                pointers(arguments).data(), pointers(environment).data());
  if (error == ENOENT || error == EACCES) {
    throw InputMissing(fmt::format("starting {}: {}", options.program, std::strerror(error)));
  }
  if (error == EAGAIN) throw no_further_task(options.program, {error, std::generic_category()});
  if (error != 0) {
    throw_errno(fmt::format("starting {}", options.program).c_str(), error);
  }
  try {
    end_ = ProcessEnd::of(pid_);
    DS_CHECK(end_, "process {} is a child of ours, and not there", pid_);
  } catch (const Error&) {
    signal_group(SIGKILL);
    wait();
    throw;
  }
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), end_(std::move(other.end_)), ended_(other.ended_) {}

Process::~Process() {
  if (pid_ > 0 && !ended_) {
    signal_group(SIGKILL);
    wait();
  }
}

std::optional<ExitStatus> Process::try_wait() {
  siginfo_t info{};
  const auto id = static_cast<id_t>(pid_);
  // Look first and clean the group while the zombie still holds its number.
  if (!ended_ && waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
      info.si_pid == pid_) {
    kill(-pid_, SIGKILL);
    waitid(P_PID, id, &info, WEXITED);
    ended_ = from_siginfo(info);
  }
  return ended_;
}

ExitStatus Process::wait() {
  siginfo_t info{};
  while (!ended_ && waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 &&
         errno == EINTR) {
  }
  return *try_wait();
}

void Process::signal_group(int signal) noexcept {
  if (pid_ > 0 && !ended_) {
    kill(-pid_, signal);
  }
}

PipeEnds make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw_errno("making a pipe", errno);
  }
  Fd write_end(ends[1]);
  Fd read_high = above_standard(ends[0]);
  return {std::move(read_high), above_standard(write_end.release())};
}

SocketEnds make_socket_pair() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    throw_errno("making a socket pair", errno);
  }
  Fd second(ends[1]);
  Fd first_high = above_standard(ends[0]);
  return {std::move(first_high), above_standard(second.release())};
}

Fd duplicate_high(int fd) {
  Fd high(fcntl(fd, F_DUPFD_CLOEXEC, kFirstFree));
  if (!high.valid()) {
    throw_errno("duplicating a file descriptor", errno);
  }
  return high;
}

void ensure_standard_descriptors() {
  for (int fd = 0; fd <= STDERR_FILENO; ++fd) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
      // The lowest free number is `fd` itself.
      [[maybe_unused]] const int opened = open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY);
    }
  }
}

std::string find_on_path(std::string_view path, std::string_view name) {
  while (!path.empty()) {
    const size_t colon = std::min(path.find(':'), path.size());
    const std::string candidate = fmt::format("{}/{}", path.substr(0, colon), name);
    if (colon > 0 && access(candidate.c_str(), X_OK) == 0) return candidate;
    path.remove_prefix(std::min(colon + 1, path.size()));
  }
  return "";
}

}  // namespace ds
