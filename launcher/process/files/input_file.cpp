#include "launcher/process/files/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/files/file.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/text/line_buffer.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

Fd opened(const fs::path& path) {
  try {
    return open_regular_file(path.string());
  } catch (const NotAFile& error) {
    throw DataError(error.what());
  } catch (const InputMissing&) {
    throw;
  } catch (const IoError& error) {
    throw InputMissing(error.what());
  }
}

std::optional<Fd> opened_if_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) ? std::optional(opened(path)) : std::nullopt;
}

// What the next read() gives; nothing at the end. Sizes say nothing: files of /proc have none.
std::string_view next_of(const Fd& fd, std::vector<char>& bytes, const fs::path& path) {
  while (true) {
    const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
    if (got >= 0) return {bytes.data(), to_size(got)};
    if (errno == EINTR) continue;
    throw InputMissing(fmt::format("reading {}: {}", path.string(), std::strerror(errno)));
  }
}

constexpr size_t kAtOnce = 64 << 10;

std::string whole_text(const Fd& fd, const fs::path& path, size_t limit) {
  std::string text;
  std::vector<char> bytes(kAtOnce);
  while (text.size() <= limit) {
    const std::string_view more = next_of(fd, bytes, path);
    if (more.empty()) return text;
    text += more;
  }
  throw DataError(fmt::format("{} has more than {} bytes", path.string(), limit));
}

}  // namespace

std::string read_input_file(const fs::path& path, size_t limit) {
  return whole_text(opened(path), path, limit);
}

std::optional<std::string> read_input_file_if_there(const fs::path& path, size_t limit) {
  const std::optional<Fd> fd = opened_if_there(path);
  return fd ? std::optional(whole_text(*fd, path, limit)) : std::nullopt;
}

std::string read_part(const fs::path& path, uintmax_t offset, size_t most) {
  const std::optional<Fd> fd = opened_if_there(path);
  struct stat info {};
  if (!fd || ::fstat(fd->get(), &info) != 0) return "";
  const auto size = static_cast<uintmax_t>(info.st_size);
  if (offset >= size) return "";
  std::string text(std::min<uintmax_t>(most, size - offset), '\0');
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t got =
        ::pread(fd->get(), text.data() + done, text.size() - done, narrow<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0)
      throw InputMissing(fmt::format("reading {}: {}", path.string(), std::strerror(errno)));
    if (got == 0) break;  // it has shrunk
    done += to_size(got);
  }
  text.resize(done);
  return text;
}

bool read_lines(const fs::path& path, size_t limit,
                const std::function<void(std::string_view line)>& sink) {
  const std::optional<Fd> fd = opened_if_there(path);
  if (!fd) return false;
  LineBuffer lines;
  std::vector<char> bytes(kAtOnce);
  size_t all = 0;
  while (all <= limit) {
    const std::string_view more = next_of(*fd, bytes, path);
    if (more.empty()) return true;
    lines.feed(more, sink);
    all += more.size();
  }
  throw DataError(fmt::format("{} has more than {} bytes", path.string(), limit));
}

std::string system_text(const fs::path& path) {
  constexpr size_t kMost = 16 << 20;  // tables of sockets are long
  try {
    return read_input_file(path, kMost);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace ds
