// System calls that a signal has not interrupted.
#pragma once

#include <cerrno>

namespace ds {

// `call` until no signal interrupts it: of those that return a negative number and set errno.
template <typename Call>
auto uninterrupted(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace ds
