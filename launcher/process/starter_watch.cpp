#include "launcher/process/starter_watch.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>

#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/tasks/wake_fd.h"

namespace ds {
namespace {

// Between the wish and the end: time to save a little, and less than what an orphan may live.
constexpr int kMercyMs = 10'000;

}  // namespace

StarterWatch::StarterWatch() : end_(make_wake_fd()) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for those who wait for them
  try {
    parent_ = ProcessEnd::of(getppid());
    if (!parent_) throw IoError("the process that started dslaunch cannot be watched: it is gone");
    thread_ = start_thread("the program that started us", [this] { watch(); });
  } catch (const Error&) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

StarterWatch::~StarterWatch() {
  eventfd_write(end_.get(), 1);
  thread_.join();
}

void StarterWatch::watch() const {
  std::array<pollfd, 2> watched{{{end_.get(), POLLIN, 0}, {parent_->fd(), POLLIN, 0}}};
  while (poll(watched.data(), watched.size(), -1) < 0) {
  }
  if (watched[0].revents != 0) return;
  kill(getpid(), SIGTERM);
  pollfd end{end_.get(), POLLIN, 0};
  if (poll(&end, 1, kMercyMs) == 0) kill(getpid(), SIGKILL);
}

}  // namespace ds
