#include "core/tasks/process_end.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/tasks/uninterrupted.h"
#include "core/tasks/wake_fd.h"
#include "core/values/index.h"

namespace ds {

namespace {

constexpr int kLookAgainMs = 50;

IoError failure_of(const std::string& call) {
  return IoError(fmt::format("{}: {}", call, std::generic_category().message(errno)));
}

std::optional<ProcessStat> parse_stat(std::string_view text) {
  // The name in parentheses may hold anything; the start is field 22, the 20th after it.
  const size_t name_ends = text.rfind(')');
  if (name_ends == std::string_view::npos || name_ends + 2 >= text.size()) return std::nullopt;
  text.remove_prefix(name_ends + 1);
  ProcessStat stat{.state = text[1]};
  for (int field = 0; field < 20; ++field) {
    const size_t space = text.find(' ', field == 0 ? 0 : 1);
    if (space == std::string_view::npos) return std::nullopt;
    text.remove_prefix(space);
  }
  std::from_chars(text.data() + 1, text.data() + text.size(), stat.started);
  return stat;
}

}  // namespace

std::optional<ProcessStat> process_stat(int pid) {
  const std::string path = fmt::format("/proc/{}/stat", pid);
  const Fd file(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (!file.valid() && (errno == ENOENT || errno == ESRCH)) return std::nullopt;
  if (!file.valid()) throw failure_of(path);
  std::array<char, 1024> buffer{};
  const ssize_t length =
      uninterrupted([&] { return ::read(file.get(), buffer.data(), buffer.size()); });
  if (length < 0 && errno != ESRCH) throw failure_of(path);
  if (length <= 0) return std::nullopt;
  return parse_stat({buffer.data(), to_size(length)});
}

// The thread that looks, and the descriptor by which it tells.
class ProcessEnd::Lookout {
 public:
  Lookout(int pid, uint64_t started)
      : pid_(pid), started_(started), ended_(make_wake_fd()), stop_(make_wake_fd()) {
    thread_ = start_thread("the end of a process", [this] { look(); });
  }
  Lookout(const Lookout&) = delete;  // the thread holds `this`
  Lookout& operator=(const Lookout&) = delete;
  ~Lookout() {
    eventfd_write(stop_.get(), 1);
    thread_.join();
  }
  int fd() const { return ended_.get(); }

 private:
  void look() const {
    for (pollfd stop{stop_.get(), POLLIN, 0}; is_alive();) {
      if (::poll(&stop, 1, kLookAgainMs) > 0) return;
    }
    eventfd_write(ended_.get(), 1);
  }
  // What cannot be read now is asked again.
  bool is_alive() const {
    try {
      const auto stat = process_stat(pid_);
      return stat && stat->started == started_ && stat->state != 'Z' && stat->state != 'X';
    } catch (const IoError&) {
      return true;
    }
  }

  int pid_;
  uint64_t started_;
  Fd ended_, stop_;
  std::thread thread_;  // last: uses everything above
};

std::optional<ProcessEnd> ProcessEnd::of(int pid) {
  Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (pidfd.valid()) return ProcessEnd(std::move(pidfd), nullptr);
  if (errno == ESRCH) return std::nullopt;
  if (errno != ENOSYS && errno != EPERM) throw failure_of("pidfd_open");
  const auto stat = process_stat(pid);
  if (!stat) return std::nullopt;
  return ProcessEnd(Fd(), std::make_unique<Lookout>(pid, stat->started));
}

ProcessEnd::ProcessEnd(Fd pidfd, std::unique_ptr<Lookout> lookout)
    : pidfd_(std::move(pidfd)), lookout_(std::move(lookout)) {}
ProcessEnd::ProcessEnd(ProcessEnd&&) noexcept = default;
ProcessEnd& ProcessEnd::operator=(ProcessEnd&&) noexcept = default;
ProcessEnd::~ProcessEnd() = default;

int ProcessEnd::fd() const { return lookout_ ? lookout_->fd() : pidfd_.get(); }

bool ProcessEnd::has_come() const {
  pollfd request{fd(), POLLIN, 0};
  return ::poll(&request, 1, 0) > 0;
}

}  // namespace ds
