#include "launcher/report/terminal/terminal.h"

#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cli/text/terminal_text.h"
#include "core/status/error.h"

namespace ds {

TerminalSize terminal_size(int fd) {
  TerminalSize out;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0) return out;
  if (size.ws_col > 0) out.columns = size.ws_col;
  if (size.ws_row > 0) out.rows = size.ws_row;
  return out;
}

ResizeWatch::ResizeWatch() {
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGWINCH);
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  fd_ = Fd(signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd_.valid()) throw IoError(fmt::format("signalfd: {}", std::strerror(errno)));
}

void ResizeWatch::take() {
  signalfd_siginfo info{};
  while (read(fd_.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
  }
}

// Lines do not go on in the next row, whatever a terminal makes of a character's width.
AlternateScreen::AlternateScreen() { steer_terminal(stdout, "\033[?1049h\033[?25l\033[?7l"); }
AlternateScreen::~AlternateScreen() { steer_terminal(stdout, "\033[?7h\033[?25h\033[?1049l"); }

// Rows are erased before they are written: behind the last column, erasing takes what stands there.
void AlternateScreen::show(const std::vector<ScreenLine>& lines, const ScreenLook& look) {
  std::string frame = "\033[H";
  for (size_t i = 0; i < lines.size(); ++i) {
    frame += i > 0 ? "\r\n\033[K" : "\033[K";
    frame += look.colour ? lines[i].painted() : lines[i].text();
  }
  if (lines.size() < look.rows) frame += "\r\n\033[J";
  steer_terminal(stdout, frame);
}

}  // namespace ds
