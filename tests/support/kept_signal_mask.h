// Puts the calling thread's signal mask back when it goes: for code of main programs that blocks
// signals for good.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace ds::testing {

class KeptSignalMask {
 public:
  KeptSignalMask() { pthread_sigmask(SIG_SETMASK, nullptr, &before_); }
  KeptSignalMask(const KeptSignalMask&) = delete;  // puts one mask back
  KeptSignalMask& operator=(const KeptSignalMask&) = delete;
  ~KeptSignalMask() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

}  // namespace ds::testing
