#include "rankd/verbs/input_texts.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "core/index.h"
#include "data/byte_stream.h"

namespace ds {
namespace {

constexpr size_t kStep = size_t{1} << 16;

}  // namespace

std::string read_standard_input(const std::string& verb) {
  if (isatty(STDIN_FILENO) == 1) {
    throw UsageError(fmt::format(
        "{0}: there is no text: give one, or send it to standard input (see `dslaunch {0} --help`)",
        verb));
  }
  std::string text;
  std::array<char, kStep> chunk{};
  for (;;) {
    const ssize_t count = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (count == 0) return text;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_io_error("read", "standard input", errno);
    text.append(chunk.data(), to_size(count));
    if (narrow<int64_t>(text.size()) > kLargestText) {
      throw DataError(fmt::format("standard input: more than {} bytes", kLargestText));
    }
  }
}

std::string read_text_file(FileSystem& files, const std::string& path) {
  std::unique_ptr<File> file = files.open(path);
  std::string head(std::min<size_t>(4, to_size(file->size())), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  const std::unique_ptr<ByteStream> stream =
      open_byte_stream(std::move(file), compression_of(head));
  std::string text;
  std::array<char, kStep> chunk{};
  while (const size_t count = stream->read(chunk)) text.append(chunk.data(), count);
  return text;
}

std::string without_last_break(std::string text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
  return text;
}

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) lines.emplace_back(line);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return lines;
}

void print_now(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw_io_error("write", "standard output", errno);
  }
}

}  // namespace ds
