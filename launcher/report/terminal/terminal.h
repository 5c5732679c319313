// The terminal behind a descriptor: its size, when that changes, and the screen behind its screen.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "core/files/file.h"
#include "launcher/report/terminal/screen_line.h"

namespace ds {

struct TerminalSize {
  size_t columns = 80;
  size_t rows = 24;
};
TerminalSize terminal_size(int fd);  // the usual one where nobody tells

// A resize of the terminal (SIGWINCH) is a readable event here. Construct before any thread exists:
// threads inherit the blocked mask.
class ResizeWatch {
 public:
  ResizeWatch();  // throws IoError
  int fd() const { return fd_.get(); }
  void take();  // all that came

 private:
  Fd fd_;
};

// The screen behind the screen of standard output; what was there before comes back, however we
// leave.
class AlternateScreen {
 public:
  AlternateScreen();
  AlternateScreen(const AlternateScreen&) = delete;  // one terminal
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  ~AlternateScreen();

  // Replaces what is there by lines, at most as many as the look has rows.
  static void show(const std::vector<ScreenLine>& lines, const ScreenLook& look);
};

}  // namespace ds
