#include "train/watch/resident_memory.h"

#include <charconv>
#include <fstream>
#include <string>

namespace ds {

// Not getrusage(2): there a process begins with the peak of the one that started it.
int64_t resident_bytes_peak() {
  constexpr std::string_view kKey = "VmHWM:";
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with(kKey)) continue;
    const size_t digits = line.find_first_of("0123456789");
    int64_t kibibytes = 0;
    if (digits == std::string::npos) return 0;
    std::from_chars(line.data() + digits, line.data() + line.size(), kibibytes);
    return kibibytes * 1024;
  }
  return 0;
}

}  // namespace ds
