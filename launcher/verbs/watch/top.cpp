#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdio>

#include "cli/terminal_text.h"
#include "launcher/process/signals.h"
#include "launcher/show/status_text.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {
namespace {

// The screen behind the screen; what was there before comes back, however we leave.
class AlternateScreen {
 public:
  AlternateScreen() { put("\033[?1049h\033[?25l"); }
  AlternateScreen(const AlternateScreen&) = delete;  // one terminal
  AlternateScreen& operator=(const AlternateScreen&) = delete;
  ~AlternateScreen() { put("\033[?25h\033[?1049l"); }

  static void show(std::string_view text) {
    std::string frame = "\033[H";
    for (const char c : text) frame += c == '\n' ? std::string("\033[K\n") : std::string(1, c);
    put(frame + "\033[J");
  }

 private:
  static void put(std::string_view text) { steer_terminal(stdout, text); }
};

// A second; false where a signal came.
bool wait_a_second(const SignalWatch& signals) {
  pollfd watched{signals.fd(), POLLIN, 0};
  return poll(&watched, 1, 1000) == 0;
}

RunStatus show_samples(const TopOptions& options, bool screen) {
  const SignalWatch signals;
  RunStatus status = find_status(options.run);
  const int wanted = options.samples > 0 || screen ? options.samples : 1;
  for (int shown = 1;; ++shown) {
    if (screen) {
      AlternateScreen::show(terminal_text(status_text(status)));
    } else if (options.json) {
      say("{}\n", status_json(status));
    } else {
      say("{}{}", shown > 1 ? "\n" : "", status_text(status));
    }
    std::fflush(stdout);
    if (shown == wanted || !status.live() || !wait_a_second(signals)) return status;
    status = find_status(options.run);
  }
}

}  // namespace

int run_top(const TopOptions& options) {
  if (options.json || isatty(STDOUT_FILENO) == 0) return code_of(show_samples(options, false));
  RunStatus last;
  {
    const AlternateScreen screen;
    last = show_samples(options, true);
  }
  say("{}", status_text(last));  // what was seen last stays
  return code_of(last);
}

}  // namespace ds
