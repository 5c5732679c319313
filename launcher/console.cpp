#include "launcher/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>

namespace ds {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(wrote > 0 ? static_cast<size_t>(wrote) : 0);
  }
}

size_t terminal_width() {
  constexpr size_t kUsual = 80;
  winsize size{};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

}  // namespace

Console::Options Console::detect(bool no_colour) {
  const bool terminal = isatty(STDERR_FILENO) == 1;
  return {STDOUT_FILENO, terminal, terminal && !no_colour};
}

void Console::line(std::string_view text) { print(options_.line_fd, fmt::format("{}\n", text)); }

void Console::error(std::string_view text) {
  print(STDERR_FILENO, options_.colour ? fmt::format("\033[1;31merror:\033[0m {}\n", text)
                                       : fmt::format("error: {}\n", text));
}

void Console::rank_output(int rank, std::string_view text) {
  print(STDERR_FILENO, fmt::format("[rank {}] {}\n", rank, text));
}

void Console::raw_error(std::string_view text) { print(STDERR_FILENO, fmt::format("{}\n", text)); }

void Console::set_live(std::string_view text) {
  if (!options_.live) {
    return;
  }
  live_text_ = std::string(text.substr(0, terminal_width() - 1));
  write_text(STDERR_FILENO, fmt::format("{}{}", kEraseLine, live_text_));
}

void Console::clear_live() {
  if (!live_text_.empty()) {
    write_text(STDERR_FILENO, kEraseLine);
    live_text_.clear();
  }
}

void Console::print(int fd, std::string_view text) {
  const std::string kept = live_text_;
  clear_live();
  write_text(fd, text);
  if (!kept.empty()) {
    set_live(kept);
  }
}

}  // namespace ds
