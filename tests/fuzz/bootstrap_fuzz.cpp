// Fuzzes what a rank reads on its standard input before it trusts anybody.
#include <sys/mman.h>
#include <unistd.h>

#include "rankd/control/session.h"
#include "tests/fuzz/one_input.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int input = memfd_create("input", MFD_CLOEXEC);
  // Every other input gets a length that is right, so that the message itself is reached.
  const auto length = static_cast<uint32_t>(size);
  const bool prefixed = size > 0 && data[0] % 2 == 0;
  ftruncate(input, 0);
  lseek(input, 0, SEEK_SET);
  if (prefixed && write(input, &length, sizeof(length)) != sizeof(length)) return 0;
  if (write(input, data, size) != static_cast<ssize_t>(size)) return 0;
  lseek(input, 0, SEEK_SET);
  ds::fuzz::expect_refusal_or_success([&] { ds::read_bootstrap(input); });
  return 0;
}
