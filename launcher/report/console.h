// What the user sees: lines, errors, and on a terminal one live line that is rewritten in place.
// Printing never waits and never fails: each of standard output and error has a thread that writes,
// and what nobody reads is dropped and counted once too much of it waits. The logs have it all the
// same. All of it but a result is a terminal_text(): much of it is said by ranks and other hosts.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/tasks/background_writer.h"
#include "launcher/decide/text/clock_time.h"

namespace ds {

class Console {
 public:
  struct Options {
    int line_fd = 1;  // plain lines; --json moves them to standard error
    int error_fd = 2;
    int result_fd = 1;                         // what --json is for
    bool live = false;                         // standard error is a terminal
    bool colour = false;                       // and NO_COLOR is not set
    size_t most_waiting = 1 << 18;             // bytes, for each descriptor
    Time patience = std::chrono::seconds(10);  // at the end, with a reader that takes nothing
  };
  static Options detect(bool no_colour);

  explicit Console(const Options& options);
  Console(const Console&) = delete;  // one writer of the terminal
  Console& operator=(const Console&) = delete;
  ~Console();

  bool live() const { return options_.live; }
  void line(std::string_view text);
  void closing_line(
      std::string_view text);         // like errors and results, it is never dropped while we run
  void error(std::string_view text);  // "error: ..." on standard error
  void rank_output(int rank, std::string_view text);  // "[rank 3] ..." on standard error
  void raw_error(std::string_view text);  // a line for machines on standard error, where no person
                                          // sits before it
  // Where results go: as it is, but for a terminal.
  void result(std::string_view text);
  void set_live(std::string_view text);
  size_t live_columns() const;  // that a live line may have
  void clear_live();

 private:
  // An outlet is where some descriptors lead, which is often the same for all of them.
  struct Outlet {
    std::shared_ptr<BackgroundWriter> writer;
    BackgroundWriter::Lane lane;
    int64_t dropped = 0;  // lines, since something was taken
  };
  static Outlet open_outlet(int fd, size_t most_waiting);
  Outlet& outlet_of(int fd) {
    return fd == options_.error_fd ? errors_ : fd == options_.line_fd ? lines_ : results_;
  }
  void close_outlet(Outlet& outlet, int fd);
  static std::string not_shown(const Outlet& outlet);
  enum class Worth { kMayDrop, kKeep };
  static bool send(Outlet& outlet, int fd, std::string text, Worth worth);
  bool send_over_live(Outlet& outlet, int fd, std::string text, Worth worth);
  void print(int fd, std::string_view text, Worth worth);

  const Options options_;
  Outlet errors_;
  Outlet lines_;
  Outlet results_;
  std::string live_text_;
};

}  // namespace ds
