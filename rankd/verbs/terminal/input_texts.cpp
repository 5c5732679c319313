#include "rankd/verbs/terminal/input_texts.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "cli/text/terminal_text.h"
#include "data/text/byte_stream.h"

namespace ds {

std::string read_text_file(FileSystem& files, const std::string& path) {
  return std::string(without_mark(read_decompressed(files, path)));
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
