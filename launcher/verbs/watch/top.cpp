#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <limits>

#include "cli/text/terminal_text.h"
#include "core/status/error.h"
#include "launcher/process/signals.h"
#include "launcher/report/screen/top_screen.h"
#include "launcher/report/status_text.h"
#include "launcher/report/terminal/terminal.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPeriod{1000};

// A run whose metrics cannot be read has a status all the same.
MetricCurves recent_curves_if_any(const std::string& run) {
  try {
    return recent_curves(run);
  } catch (const Error&) {
    return {};
  }
}

struct Sample {
  RunStatus status;
  MetricCurves recent;
};

Sample take_sample(const std::string& run) { return {find_status(run), recent_curves_if_any(run)}; }

// False where a signal came before it is time.
bool wait_for_next(const SignalWatch& signals) {
  pollfd watched{signals.fd(), POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(kPeriod.count())) == 0;
}

RunStatus print_samples(const TopOptions& options) {
  const SignalWatch signals;
  RunStatus status = find_status(options.run);
  const int wanted = options.samples > 0 ? options.samples : 1;
  for (int shown = 1;; ++shown) {
    if (options.json) {
      say("{}\n", status_json(status));
    } else {
      say("{}{}", shown > 1 ? "\n" : "", status_text(status));
    }
    std::fflush(stdout);
    if (shown == wanted || !status.live() || !wait_for_next(signals)) return status;
    status = find_status(options.run);
  }
}

ScreenLook sized(ScreenLook look) {
  const TerminalSize size = terminal_size(STDOUT_FILENO);
  look.columns = size.columns;
  look.rows = size.rows;
  return look;
}

void show(const Sample& sample, const ScreenLook& look) {
  AlternateScreen::show(top_screen(sample.status, sample.recent, look), look);
}

// Until it is time for the next sample, shows this one in each new size of the terminal. False
// where a signal came.
bool show_until_next(const Sample& sample, const ScreenLook& look, const SignalWatch& signals,
                     ResizeWatch& resizes) {
  const Clock::time_point next = Clock::now() + kPeriod;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
    if (left.count() <= 0) return true;
    pollfd watched[] = {{signals.fd(), POLLIN, 0}, {resizes.fd(), POLLIN, 0}};
    if (poll(watched, 2, static_cast<int>(left.count())) <= 0) continue;
    if (watched[0].revents != 0) return false;
    resizes.take();
    show(sample, sized(look));
  }
}

Sample show_samples(const TopOptions& options, const ScreenLook& look) {
  const SignalWatch signals;
  ResizeWatch resizes;
  Sample sample = take_sample(options.run);
  const AlternateScreen screen;
  for (int shown = 1;; ++shown) {
    show(sample, sized(look));
    const bool last = shown == options.samples || !sample.status.live();
    if (last || !show_until_next(sample, look, signals, resizes)) return sample;
    sample = take_sample(options.run);
  }
}

}  // namespace

int run_top(const TopOptions& options, const ScreenLook& look) {
  if (options.json || isatty(STDOUT_FILENO) == 0) return code_of(print_samples(options));
  const Sample last = show_samples(options, look);
  ScreenLook whole = sized(look);
  whole.rows = std::numeric_limits<int>::max();  // what was seen last stays, with all ranks
  for (const ScreenLine& line : top_screen(last.status, last.recent, whole)) {
    steer_terminal(stdout, (whole.colour ? line.painted() : line.text()) + "\n");
  }
  return code_of(last.status);
}

}  // namespace ds
