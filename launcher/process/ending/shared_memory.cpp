#include "launcher/process/ending/shared_memory.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string_view>

namespace ds {
namespace {

constexpr int kTries = 3;  // a failure of the system may be over at once

// Whether nothing of it is left, as far as can be seen.
bool removed_all(std::string_view name) {
  const auto close = [](DIR* folder) { closedir(folder); };
  const std::unique_ptr<DIR, decltype(close)> folder(opendir("/dev/shm"), close);
  if (!folder) return false;
  bool all = true;
  while (const dirent* const entry = readdir(folder.get())) {
    if (!std::string_view(entry->d_name).starts_with(name)) continue;
    all = unlinkat(dirfd(folder.get()), entry->d_name, 0) == 0 && all;
  }
  return all;
}

}  // namespace

void remove_shared_memory(const std::string& name) noexcept {
  for (int i = 0; i < kTries && !removed_all(name); ++i) {
  }
}

}  // namespace ds
