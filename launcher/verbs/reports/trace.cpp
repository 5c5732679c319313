// Has a running job record some steps, waits for them and writes them as one file.
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>

#include "cli/text/terminal_text.h"
#include "core/files/file.h"
#include "launcher/decide/text/amounts.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/files/input_file.h"
#include "launcher/process/signals.h"
#include "launcher/report/trace_file.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr int kTurnMs = 100;
constexpr size_t kMostTraceBytes = size_t{2} << 30;

// On a terminal, one line that is renewed.
class ProgressLine {
 public:
  ~ProgressLine() { show(""); }
  void show(const std::string& text) const {
    if (is_shown_) steer_terminal(stderr, fmt::format("\r\033[K{}", terminal_text(text)));
  }

 private:
  const bool is_shown_ = isatty(STDERR_FILENO) != 0;
};

std::string progress_of(const RunStatus& status, int64_t first) {
  const int64_t at = status.last_step ? status.last_step->step : 0;
  return fmt::format("tracing: step {} of {}, {} of {} ranks have sent theirs",
                     std::clamp<int64_t>(at - first, 0, status.trace.steps), status.trace.steps,
                     status.trace.ready.size(), status.trace.ranks.size());
}

// Waits until the ranks have sent all. Throws where that will not be.
TraceStatus await_trace(const fs::path& run, const RunStatus& begun) {
  SignalWatch signals;
  const ProgressLine line;
  const int64_t first = begun.last_step ? begun.last_step->step : 0;
  for (RunStatus status = begun;; status = find_status(run)) {
    const bool is_ours = status.trace.number == begun.trace.number;
    if (is_ours && status.trace.state == "done") return status.trace;
    if (is_ours && status.trace.state == "failed") {
      throw Error(ExitCode::kTrainingFailed,
                  fmt::format("the trace came to nothing: {}", status.trace.reason));
    }
    if (!status.live() || !is_ours) {
      throw Error(ExitCode::kTrainingFailed,
                  fmt::format("the trace came to nothing: the run ended first ({})", status.phase));
    }
    line.show(progress_of(status, first));
    pollfd watched{signals.fd(), POLLIN, 0};
    if (poll(&watched, 1, kTurnMs) > 0) {
      static_cast<void>(signals.take());
      static_cast<void>(ask_running(run, {.verb = ControlVerb::kTraceStop}));
    }
  }
}

// The launcher's disk may be slower than its word.
TraceFile read_trace(const fs::path& run, int64_t number) {
  const fs::path lines = run / kTraceFile;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (std::chrono::steady_clock::now() < until) {
    const std::string text = read_input_file_if_there(lines, kMostTraceBytes).value_or("");
    if (auto trace = trace_file(text, number)) {
      std::error_code left;
      fs::remove(lines, left);
      return std::move(*trace);
    }
    poll(nullptr, 0, kTurnMs);
  }
  throw IoError(fmt::format("{}: the launcher has not written it within 10 s", lines.string()));
}

}  // namespace

int run_trace(const TraceOptions& options) {
  const ControlReply reply = ask_running(
      options.run,
      ControlRequest{.verb = ControlVerb::kTrace, .steps = options.steps, .ranks = options.ranks});
  const TraceStatus done = await_trace(options.run, reply.status);
  const TraceFile trace = read_trace(options.run, done.number);
  const std::string file =
      options.output.empty() ? join_path(options.run, "trace.json") : options.output;
  RealFileSystem files;
  files.write_text_atomically(file, trace.json);
  if (options.json) {
    say("{}\n", JsonObject()
                    .text("file", file)
                    .integer("ranks", trace.ranks)
                    .integer("first_step", trace.first_step)
                    .integer("steps", trace.steps)
                    .integer("events", trace.events)
                    .integer("left_out", trace.left_out)
                    .str());
    return 0;
  }
  say("{}: {} of {} from step {} on, {}; https://ui.perfetto.dev shows it\n", file,
      format_count(trace.steps, "step"), format_count(trace.ranks, "rank"), trace.first_step,
      format_count(trace.events, "event"));
  if (trace.left_out > 0) {
    say("{} kernels had no room: trace fewer steps\n", trace.left_out);
  }
  return 0;
}

}  // namespace ds
