#include "core/tasks/host.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace ds {

std::string own_host_name() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::optional<int64_t> available_memory() {
  std::ifstream info("/proc/meminfo");
  std::string name, unit;
  int64_t kibibytes = 0;
  while (info >> name >> kibibytes && std::getline(info, unit)) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return std::nullopt;
}

}  // namespace ds
