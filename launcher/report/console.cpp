#include "launcher/report/console.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "cli/text/terminal_text.h"
#include "core/values/index.h"
#include "launcher/report/terminal/terminal.h"

namespace ds {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";

// Writes the text, in the thread of an outlet, which may wait. A reader that has gone is no error.
void write_text(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = write(fd, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(wrote > 0 ? to_size(wrote) : 0);
  }
}

bool same_place(int a, int b) {
  struct stat of_a {};
  struct stat of_b {};
  return a == b || (fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
                    of_a.st_ino == of_b.st_ino && of_a.st_rdev == of_b.st_rdev);
}

}  // namespace

Console::Options Console::detect(bool no_colour) {
  Options out;
  out.live = isatty(STDERR_FILENO) == 1;
  out.colour = out.live && !no_colour;
  return out;
}

Console::Outlet Console::open_outlet(int fd, size_t most_waiting) {
  Outlet out{.writer = std::make_shared<BackgroundWriter>(), .lane = {}, .dropped = 0};
  out.lane = out.writer->add_lane(fmt::format("descriptor {}", fd), most_waiting);
  return out;
}

// One that leads to the same place as another shares its thread, so that lines stay in order.
Console::Console(const Options& options)
    : options_(options),
      errors_(open_outlet(options.error_fd, options.most_waiting)),
      lines_(same_place(options.line_fd, options.error_fd)
                 ? errors_
                 : open_outlet(options.line_fd, options.most_waiting)),
      results_(same_place(options.result_fd, options.line_fd) ? lines_
               : same_place(options.result_fd, options.error_fd)
                   ? errors_
                   : open_outlet(options.result_fd, options.most_waiting)) {}

Console::~Console() {
  clear_live();
  close_outlet(errors_, options_.error_fd);
  close_outlet(lines_, options_.line_fd);
  close_outlet(results_, options_.result_fd);
}

void Console::close_outlet(Outlet& outlet, int fd) {
  const bool taken = outlet.writer->finish(options_.patience).empty();
  if (taken && outlet.dropped > 0) {
    send(outlet, fd, not_shown(outlet), Worth::kKeep);
    outlet.writer->finish(options_.patience);
  }
}

std::string Console::not_shown(const Outlet& outlet) {
  return fmt::format(
      "({} lines are not shown here, because nobody took them; the logs have them)\n",
      outlet.dropped);
}

bool Console::send(Outlet& outlet, int fd, std::string text, Worth worth) {
  const size_t bytes = worth == Worth::kKeep ? 0 : text.size();
  return outlet.writer->post(outlet.lane, bytes,
                             [fd, text = std::move(text)] { write_text(fd, text); });
}

void Console::line(std::string_view text) {
  print(options_.line_fd, fmt::format("{}\n", terminal_text(text)), Worth::kMayDrop);
}

void Console::closing_line(std::string_view text) {
  print(options_.line_fd, fmt::format("{}\n", terminal_text(text)), Worth::kKeep);
}

void Console::error(std::string_view text) {
  print(options_.error_fd,
        fmt::format("{} {}\n",
                    options_.colour ? "\033[1;31merror:\033[0m" : "error:", terminal_text(text)),
        Worth::kKeep);
}

void Console::rank_output(int rank, std::string_view text) {
  print(options_.error_fd, fmt::format("[rank {}] {}\n", rank, terminal_text(text)),
        Worth::kMayDrop);
}

void Console::raw_error(std::string_view text) {
  if (options_.live) return;  // people are told the same in words
  print(options_.error_fd, fmt::format("{}\n", terminal_text(text)), Worth::kKeep);
}

void Console::result(std::string_view text) {
  const bool to_people = isatty(options_.result_fd) == 1;
  print(options_.result_fd, to_people ? terminal_text(text) : std::string(text), Worth::kKeep);
}

void Console::set_live(std::string_view text) {
  // Each takes the place of the one before: with a terminal that is slow or stopped, one less is no
  // loss.
  if (!options_.live || errors_.writer->waiting(errors_.lane) > 0) {
    return;
  }
  live_text_ = fitting(terminal_text(text), live_columns());
  send(errors_, options_.error_fd, fmt::format("{}{}", kEraseLine, live_text_), Worth::kMayDrop);
}

size_t Console::live_columns() const { return terminal_size(options_.error_fd).columns - 1; }

void Console::clear_live() {
  if (!live_text_.empty()) {
    send(errors_, options_.error_fd, std::string(kEraseLine), Worth::kMayDrop);
    live_text_.clear();
  }
}

void Console::print(int fd, std::string_view text, Worth worth) {
  Outlet& outlet = outlet_of(fd);
  std::string all = outlet.dropped > 0 ? not_shown(outlet) : "";
  all += text;
  const bool over_live = !live_text_.empty() && outlet.writer == errors_.writer;
  const bool sent = over_live ? send_over_live(outlet, fd, std::move(all), worth)
                              : send(outlet, fd, std::move(all), worth);
  outlet.dropped = sent ? 0 : outlet.dropped + 1;
}

// In the place of the live line, which comes back below.
bool Console::send_over_live(Outlet& outlet, int fd, std::string text, Worth worth) {
  const size_t bytes = worth == Worth::kKeep ? 0 : text.size() + live_text_.size();
  return outlet.writer->post(
      outlet.lane, bytes,
      [fd, text = std::move(text), terminal = options_.error_fd, live = live_text_] {
        write_text(terminal, kEraseLine);
        write_text(fd, text);
        write_text(terminal, live);
      });
}

}  // namespace ds
