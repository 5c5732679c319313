#include "rankd/verbs/terminal/end_request.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>

namespace ds {
namespace {

constexpr std::array kEnding{SIGINT, SIGTERM, SIGHUP};

std::atomic<int> asked_signal = 0;
static_assert(std::atomic<int>::is_always_lock_free);  // a signal handler writes it

std::array<struct sigaction, kEnding.size()> former_actions;

void note_signal(int signal) { asked_signal = signal; }

}  // namespace

EndRequest::EndRequest() {
  asked_signal = 0;
  struct sigaction action {};
  action.sa_handler = note_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kEnding.size(); ++i) {
    sigaction(kEnding[i], nullptr, &former_actions[i]);
    if (former_actions[i].sa_handler != SIG_IGN) sigaction(kEnding[i], &action, nullptr);
  }
}

EndRequest::~EndRequest() {
  for (size_t i = 0; i < kEnding.size(); ++i) sigaction(kEnding[i], &former_actions[i], nullptr);
}

void EndRequest::check() {
  if (const int signal = asked_signal; signal != 0) throw EndRequested(signal);
}

void end_by(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);
  _exit(128 + signal);  // it is blocked
}

}  // namespace ds
