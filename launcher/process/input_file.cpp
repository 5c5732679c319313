#include "launcher/process/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/files/file.h"
#include "core/index.h"

namespace ds {

std::string read_input_file(const std::filesystem::path& path, size_t limit) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info {};
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    throw InputMissing(fmt::format("reading {}: {}", path.string(), std::strerror(errno)));
  }
  if (!S_ISREG(info.st_mode)) {
    throw DataError(fmt::format("{} is no file", path.string()));
  }
  std::string text;
  std::array<char, 65536> bytes{};
  while (text.size() <= limit) {
    const ssize_t got = read(fd.get(), bytes.data(), bytes.size());
    if (got == 0) {
      return text;
    }
    if (got > 0) {
      text.append(bytes.data(), to_size(got));
    } else if (errno != EINTR) {
      throw InputMissing(fmt::format("reading {}: {}", path.string(), std::strerror(errno)));
    }
  }
  throw DataError(fmt::format("{} has more than {} bytes", path.string(), limit));
}

std::optional<std::string> read_input_file_if_there(const std::filesystem::path& path,
                                                    size_t limit) {
  std::error_code error;
  return std::filesystem::exists(path, error) ? std::optional(read_input_file(path, limit))
                                              : std::nullopt;
}

}  // namespace ds
