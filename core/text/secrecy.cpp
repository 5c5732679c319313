#include "core/text/secrecy.h"

#include <malloc.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

void wipe(std::string& secret) {
  secret.resize(secret.capacity());  // what an earlier, longer value left behind
  explicit_bzero(secret.data(), secret.size());
  secret.clear();
}

void wipe(std::span<char> bytes) { explicit_bzero(bytes.data(), bytes.size()); }

void wipe(std::vector<std::string>& secrets) {
  for (std::string& secret : secrets) wipe(secret);
  secrets.clear();
}

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = getrandom(bytes.data(), bytes.size(), 0);
    if (got < 0 && errno != EINTR) {
      throw IoError(fmt::format("random bytes of the kernel: {}", std::strerror(errno)));
    }
    bytes = bytes.subspan(to_size(std::max<ssize_t>(got, 0)));
  }
}

void append_secret(std::string& secret, std::string_view more) {
  const size_t needed = secret.size() + more.size();
  if (needed > secret.capacity()) {
    std::string larger;
    larger.reserve(std::max(needed, 2 * secret.capacity()));
    larger.append(secret);
    secret.swap(larger);
    wipe(larger);
  }
  secret.append(more);
}

void drop_front(std::string& secret, size_t count) {
  const size_t left = secret.size() - count;
  std::memmove(secret.data(), secret.data() + count, left);
  explicit_bzero(secret.data() + left, count);
  secret.resize(left);
}

void* WipingMemory::allocate(size_t bytes, const char* file, int line) {
  static_cast<void>(file);
  static_cast<void>(line);
  return bytes == 0 ? nullptr : std::malloc(bytes);
}

void* WipingMemory::resize(void* memory, size_t bytes, const char* file, int line) {
  void* const other = allocate(bytes, file, line);
  if (memory == nullptr || (other == nullptr && bytes > 0)) return other;
  if (other != nullptr) std::memcpy(other, memory, std::min(bytes, malloc_usable_size(memory)));
  release(memory, file, line);
  return other;
}

void WipingMemory::release(void* memory, const char* file, int line) {
  static_cast<void>(file);
  static_cast<void>(line);
  if (memory != nullptr) explicit_bzero(memory, malloc_usable_size(memory));
  std::free(memory);
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
