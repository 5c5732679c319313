// The descriptor by which one thread wakes another that polls.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <system_error>

#include "core/files/file.h"

namespace ds {

// An eventfd that closes on exec and never blocks. Throws IoError.
inline Fd make_wake_fd() {
  Fd made(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!made.valid()) {
    throw IoError(fmt::format("eventfd: {}", std::generic_category().message(errno)));
  }
  return made;
}

}  // namespace ds
