// A line of standard error that is rewritten while something goes on, where that is a terminal.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "cli/text/terminal_text.h"

namespace ds {

class LiveLine {
 public:
  LiveLine() = default;
  ~LiveLine() { erase(); }
  LiveLine(const LiveLine&) = delete;  // one writer of the line
  LiveLine& operator=(const LiveLine&) = delete;

  bool is_live() const { return is_live_; }
  // In the place of what it showed; of no effect where there is no terminal.
  void show(std::string_view text) const {
    if (!is_live_) return;
    erase();
    say(stderr, "{}", text);
    std::fflush(stderr);
  }
  // A line that stays.
  void say_between(std::string_view text) const {
    erase();
    say(stderr, "{}\n", text);
  }

 private:
  void erase() const {
    if (is_live_) steer_terminal(stderr, "\r\x1b[K");
  }

  const bool is_live_ = isatty(STDERR_FILENO) == 1;
};

}  // namespace ds
