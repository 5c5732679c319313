#include "cli/standard_input.h"

#include <unistd.h>

#include <array>
#include <cerrno>

#include "core/files/file.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

std::string read_standard_input(const std::string& verb) {
  if (isatty(STDIN_FILENO) == 1) {
    throw UsageError(fmt::format(
        "{0}: there is no text: give one, or send it to standard input (see `dslaunch {0} --help`)",
        verb));
  }
  std::string text;
  std::array<char, size_t{1} << 16> chunk{};
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io_error("read", "standard input", errno);
    text.append(chunk.data(), to_size(count));
    if (narrow<int64_t>(text.size()) > kLargestInput) {
      throw DataError(fmt::format("standard input: more than {} bytes", kLargestInput));
    }
  }
}

std::string without_last_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<NumberedLine> numbered_lines_of(std::string_view text) {
  std::vector<NumberedLine> lines;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.push_back({std::string(line), number});
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (NumberedLine& line : numbered_lines_of(text)) lines.push_back(std::move(line.text));
  return lines;
}

}  // namespace ds
