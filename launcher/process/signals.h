// Signals as readable events. Construct before any thread exists: threads inherit the blocked mask.
#pragma once

#include <optional>

#include "core/files/file.h"
#include "launcher/process/ending/end_watch.h"

namespace ds {

class SignalWatch {
 public:
  SignalWatch();  // INT, TERM, HUP, USR1, USR2; PIPE is ignored. Throws IoError
  SignalWatch(const SignalWatch&) = delete;  // what the kernel does with signals
  SignalWatch& operator=(const SignalWatch&) = delete;
  // INT and TERM end the process again, at once.
  ~SignalWatch();

  int fd() const { return fd_.get(); }
  std::optional<int> take();  // the next signal, if there is one

  // From now on INT and TERM that nobody takes end the process after a while, as does work that
  // takes longer than it may.
  void enforce() { end_watch_.emplace(); }
  EndWatch* end_watch() { return end_watch_ ? &*end_watch_ : nullptr; }

 private:
  Fd fd_;
  std::optional<EndWatch> end_watch_;
};

}  // namespace ds
