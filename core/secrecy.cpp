#include "core/secrecy.h"

#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "core/error.h"

namespace ds {

void wipe(std::string& secret) {
  secret.resize(secret.capacity());  // what an earlier, longer value left behind
  explicit_bzero(secret.data(), secret.size());
  secret.clear();
}

void forbid_core_dumps() {
  // A limit of one byte, not of none: where the kernel hands cores to a program it ignores a limit
  // of none and obeys only this one (core(5)). For a file it is too small, so none is made.
  const rlimit one_byte{1, 1};
  const rlimit no_bytes{0, 0};
  const bool done =
      setrlimit(RLIMIT_CORE, &one_byte) == 0 || setrlimit(RLIMIT_CORE, &no_bytes) == 0;
  DS_CHECK(done, "forbid_core_dumps: the kernel refused: {}", strerror(errno));
}

void hide_from_same_user() {
  const int done = prctl(PR_SET_DUMPABLE, 0);
  DS_CHECK(done == 0, "hide_from_same_user: the kernel refused: {}", strerror(errno));
}

}  // namespace ds
