#include "rankd/verbs/input_texts.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "cli/text/terminal_text.h"
#include "core/values/index.h"
#include "data/text/byte_stream.h"

namespace ds {

std::string read_text_file(FileSystem& files, const std::string& path) {
  std::unique_ptr<File> file = files.open(path);
  std::string head(std::min<size_t>(4, to_size(file->size())), '\0');
  file->read(0, std::as_writable_bytes(std::span(head)));
  const std::unique_ptr<ByteStream> stream =
      open_byte_stream(std::move(file), compression_of(head));
  std::string text;
  std::array<char, size_t{1} << 16> chunk{};
  while (const size_t count = stream->read(chunk)) text.append(chunk.data(), count);
  return std::string(without_mark(text));
}

void print_now(std::string_view text) {
  std::string shown;
  if (::isatty(STDOUT_FILENO) == 1) {
    shown = terminal_text(text);
    text = shown;
  }
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw_io_error("write", "standard output", errno);
  }
}

}  // namespace ds
