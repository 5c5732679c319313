#include "launcher/process/kept_memory.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/status/error.h"
#include "launcher/process/process.h"

namespace ds {

Fd make_kept_memory() {
  const Fd memory(memfd_create("dslaunch-kept", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Nobody who has it may take it from the others by cutting it off.
  if (!memory.valid() || fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL) != 0) {
    throw IoError(fmt::format("making memory for the ranks to keep their state in: {}",
                              std::strerror(errno)));
  }
  return duplicate_high(memory.get());
}

}  // namespace ds
