#include "launcher/process/signals.h"

#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

#include <cerrno>
#include <cstring>

#include "core/status/error.h"

namespace ds {

SignalWatch::SignalWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    sigaddset(&watched, signal);
  }
  ::signal(SIGPIPE, SIG_IGN);
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  fd_ = Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.valid()) {
    throw IoError(fmt::format("signalfd: {}", std::strerror(errno)));
  }
}

// Those that came too late to be heeded are not meant for whoever comes after us.
SignalWatch::~SignalWatch() {
  end_watch_.reset();
  while (take()) {
  }
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_UNBLOCK, &ending, nullptr);
}

std::optional<int> SignalWatch::take() {
  signalfd_siginfo info{};
  const ssize_t got = read(fd_.get(), &info, sizeof(info));
  return got == static_cast<ssize_t>(sizeof(info)) ? std::optional(static_cast<int>(info.ssi_signo))
                                                   : std::nullopt;
}

}  // namespace ds
