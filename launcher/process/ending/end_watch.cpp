#include "launcher/process/ending/end_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <sstream>
#include <system_error>

#include "core/tasks/task_limits.h"
#include "core/tasks/wake_fd.h"
#include "launcher/process/ending/shared_memory.h"
#include "launcher/process/files/input_file.h"

namespace ds {
namespace {

constexpr int kLookMs = 500;

std::optional<int> waiting_signal() {
  sigset_t pending;
  sigemptyset(&pending);
  if (sigpending(&pending) != 0) return std::nullopt;
  for (const int signal : {SIGTERM, SIGINT}) {
    if (sigismember(&pending, signal) == 1) return signal;
  }
  return std::nullopt;
}

// All that some thread of ours has started; each leads a group.
void kill_children() {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    std::istringstream children(system_text(task.path() / "children"));
    for (pid_t child = 0; children >> child;) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
    }
  }
}

// Nobody may read what we say.
void say(const std::string& line) {
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 1000) == 1 && (ready.revents & POLLOUT) != 0) {
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
  }
}

}  // namespace

EndWatch::EndWatch()
    : stop_(make_wake_fd()),
      thread_(start_thread("signals that nobody heeds", [this] { watch(); })) {}

EndWatch::~EndWatch() {
  eventfd_write(stop_.get(), 1);
  thread_.join();
}

void EndWatch::owns_shared_memory(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  shared_memory_ = name;
}

void EndWatch::ends_with(int exit_code) {
  const std::scoped_lock lock(mutex_);
  exit_code_ = exit_code;
}

void EndWatch::begin(BoundedWork work) {
  const std::scoped_lock lock(mutex_);
  work_ = std::move(work);
  ++number_;
}

void EndWatch::end() {
  const std::scoped_lock lock(mutex_);
  work_.reset();
}

void EndWatch::watch() {
  Patience patience;
  pollfd stop{stop_.get(), POLLIN, 0};
  while (poll(&stop, 1, kLookMs) == 0 || stop.revents == 0) {
    std::optional<BoundedWork> work;
    int number = 0;
    {
      const std::scoped_lock lock(mutex_);
      work = work_;
      number = number_;
    }
    const Time now = std::chrono::steady_clock::now().time_since_epoch();
    if (const auto verdict = patience.look(now, waiting_signal(), work, number))
      end_process(*verdict);
  }
}

void EndWatch::end_process(const Patience::Verdict& verdict) {
  kill_children();
  std::string name;
  int exit_code = verdict.exit_code;
  {
    const std::scoped_lock lock(mutex_);
    name = shared_memory_;
    exit_code = exit_code_.value_or(exit_code);
  }
  if (!name.empty()) remove_shared_memory(name);
  // gRPC does not say that it lacks a thread, which is why it hangs.
  std::string allowed;
  const TaskLimits limits = task_limits();
  for (const std::optional<TaskLimit>& limit : {limits.cgroup, limits.user}) {
    if (limit) allowed += "; is that enough: " + describe(*limit);
  }
  say(fmt::format("{}: dslaunch: {}; it ends with {}, and whatever it started with it{}\n",
                  exit_code == 0 ? "warning" : "error", verdict.why, exit_code, allowed));
  _exit(exit_code);
}

}  // namespace ds
