// What a rank recorded as lines of Chrome's trace format (pure), which Perfetto and
// chrome://tracing show: complete events ("X"), each with its beginning and its duration in
// microseconds, to the nanosecond, so that what lies within another one does so exactly. A rank is
// a process with tracks: what computes (steps > micro-steps > parts > modules > kernels), what is
// said to peers, what happens between steps, and, where there is any, what is done beside: copies
// between tiers, transfers of swap files, updates by the host. Of those that overlap each has a
// track of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/background_log.h"
#include "core/device/trace.h"
#include "train/measure/step_timer.h"
#include "train/trace/clock_offset.h"

namespace ds {

struct TracedOp {
  std::string label;  // a module's path
  std::string name;
  OpCost cost{};
  double begin_s = 0;  // since the step began
};

struct TracedStep {
  MeasuredStep measured;
  int64_t begin_ns = 0;                    // of the step, by this rank's clock
  std::vector<std::vector<TracedOp>> ops;  // by part
};

// Between steps, by this rank's clock: "save", "evaluate".
struct TracedPhase {
  std::string name;
  int64_t begin_ns = 0, end_ns = 0;
};

// TracedBackground is what is moved or updated beside computing, timed by this rank's clock.
struct TracedBackground {
  BackgroundKind kind = BackgroundKind::kToDevice;
  std::string name;
  int64_t bytes = 0;
  int64_t begin_ns = 0, end_ns = 0;
  bool is_under_way = false;  // when the trace ended
};

struct RankTrace {
  int rank = 0;
  std::string host;
  SharedClock clock{};
  std::vector<TracedStep> steps{};
  std::vector<TracedPhase> phases{};
  std::vector<TracedBackground> beside{};
  int64_t left_out = 0;  // events, because there was no more room
};

// A line for each event, after one that says whose they are, {"rank": ...}, and how the tracks from
// 1 on are called, and before one that says that this is all, {"events": n}.
std::string trace_text(const RankTrace& trace);

}  // namespace ds
