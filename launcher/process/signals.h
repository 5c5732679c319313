// Signals as readable events. Construct before any thread exists: threads inherit the blocked mask.
#pragma once

#include <optional>

#include "core/files/file.h"

namespace ds {

class SignalWatch {
 public:
  SignalWatch();  // INT, TERM, HUP, USR1, USR2; PIPE is ignored. Throws IoError
  int fd() const { return fd_.get(); }
  std::optional<int> take();  // the next signal, if there is one

 private:
  Fd fd_;
};

}  // namespace ds
