#include "train/trace/trace_text.h"

#include <fmt/compile.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "comm/contract/operation.h"
#include "core/values/index.h"
#include "train/measure/json_line.h"

namespace ds {
namespace {

// Their numbers; what is done beside has those that follow.
enum class Track { kCompute = 1, kPeers = 2, kBetween = 3 };
constexpr std::array<const char*, 3> kTracks = {"compute", "peers", "between steps"};

struct Interval {
  int64_t begin = 0, end = 0;  // nanoseconds since the trace began, by rank 0's clock
};

// Microseconds, three digits behind the point.
class Micros {
 public:
  explicit Micros(int64_t ns)
      : end_(fmt::format_to(text_.data(), FMT_COMPILE("{}{}.{:03}"), ns < 0 ? "-" : "",
                            std::abs(ns) / 1000, std::abs(ns) % 1000)) {}
  std::string_view text() const { return {text_.data(), end_}; }

 private:
  std::array<char, 32> text_;
  const char* end_;
};

void no_args(JsonLine& /*args*/) {}

class Writer {
 public:
  explicit Writer(const RankTrace& trace)
      : rank_(trace.rank), zero_(trace.clock.offset_ns + trace.clock.begin_ns) {}

  int64_t time_of(int64_t own_clock_ns) const { return own_clock_ns - zero_; }
  int64_t events() const { return events_; }
  std::string take() { return std::move(text_); }

  // `args` adds what else there is to tell.
  template <class Args>
  void slice(Track track, std::string_view kind, std::string_view name, const Interval& extent,
             const Args& args) {
    line_.text("name", name).text("cat", kind).text("ph", "X").integer("pid", rank_);
    line_.integer("tid", static_cast<int>(track)).raw("ts", Micros(extent.begin).text());
    line_.raw("dur", Micros(extent.end - extent.begin).text()).begin("args");
    args(line_);
    line_.end().flush(text_);
    ++events_;
  }
  void header(const RankTrace& trace, const std::vector<std::string>& tracks) {
    line_.integer("rank", trace.rank).text("host", trace.host);
    line_.integer("first_step", trace.steps.empty() ? 0 : trace.steps.front().measured.step);
    line_.integer("steps", narrow<int64_t>(trace.steps.size()));
    line_.integer("clock_offset_ns", trace.clock.offset_ns).integer("left_out", trace.left_out);
    line_.texts("tracks", tracks);
    line_.flush(text_);
  }
  void footer() { line_.integer("events", events_).flush(text_); }

 private:
  const int rank_;
  const int64_t zero_;  // of the trace, by this rank's clock
  int64_t events_ = 0;
  JsonLine line_;
  std::string text_;
};

int64_t nanos(double seconds) { return std::llround(seconds * 1e9); }

Interval extent_of(const MeasuredPart& part, int64_t step_begin) {
  return {step_begin + nanos(part.begin_s), step_begin + nanos(part.begin_s + part.seconds)};
}

// Kernels end where the next one begins; a module's are those in a row that have its path.
void write_ops(Writer& out, const std::vector<TracedOp>& ops, int64_t step_begin,
               const Interval& part) {
  const auto begin_of = [&](size_t i) {
    return i < ops.size() ? std::clamp(step_begin + nanos(ops[i].begin_s), part.begin, part.end)
                          : part.end;
  };
  for (size_t first = 0; first < ops.size();) {
    size_t end = first;
    while (end < ops.size() && ops[end].label == ops[first].label) ++end;
    if (!ops[first].label.empty()) {
      out.slice(Track::kCompute, "module", ops[first].label, {begin_of(first), begin_of(end)},
                no_args);
    }
    for (; first < end; ++first) {
      const OpCost& cost = ops[first].cost;
      out.slice(Track::kCompute, "kernel", ops[first].name, {begin_of(first), begin_of(first + 1)},
                [&](JsonLine& args) { args.real("flops", cost.flops).real("bytes", cost.bytes); });
    }
  }
}

void write_call(Writer& out, const MeasuredCall& call, int64_t step_begin) {
  out.slice(Track::kPeers, "collective", name_of(call.op),
            {step_begin + nanos(call.begin_s), step_begin + nanos(call.begin_s + call.seconds)},
            [&](JsonLine& args) {
              args.text("group", call.axis).text("for", call.label).integer("bytes", call.bytes);
              args.integer("wire_bytes", wire_bytes(call.op, call.ranks, call.bytes));
              args.integer("ranks", call.ranks);
            });
}

// One slice around the parts of each micro-step; of pipelines, whose micro-steps take turns, none.
void write_micro_steps(Writer& out, const MeasuredStep& step, int64_t begin) {
  std::vector<std::pair<int, Interval>> found;
  for (const MeasuredPart& part : step.parts) {
    if (part.micro_batch < 0) continue;
    const Interval extent = extent_of(part, begin);
    if (!found.empty() && found.back().first == part.micro_batch) {
      found.back().second.end = extent.end;
      continue;
    }
    const bool came_before = std::ranges::any_of(
        found, [&](const auto& other) { return other.first == part.micro_batch; });
    if (came_before) return;
    found.emplace_back(part.micro_batch, extent);
  }
  for (const auto& found_one : found) {
    const int micro_batch = found_one.first;
    out.slice(Track::kCompute, "micro-step", fmt::format("micro-step {}", micro_batch),
              found_one.second, [&](JsonLine& args) { args.integer("micro_step", micro_batch); });
  }
}

void write_step(Writer& out, const TracedStep& traced, bool is_first) {
  const MeasuredStep& step = traced.measured;
  const int64_t begin = out.time_of(traced.begin_ns);
  if (step.parts.empty()) return;
  out.slice(Track::kCompute, "step", fmt::format("step {}", step.step),
            {begin, extent_of(step.parts.back(), begin).end},
            [&](JsonLine& args) { args.integer("step", step.step); });
  write_micro_steps(out, step, begin);
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const MeasuredPart& part = step.parts[i];
    const Interval extent = extent_of(part, begin);
    const std::string_view kind = part.op == PipelineOp::kLoadMicroBatch ? "copy" : "part";
    out.slice(Track::kCompute, kind, to_string(part.op), extent, no_args);
    if (i < traced.ops.size()) write_ops(out, traced.ops[i], begin, extent);
    for (const MeasuredCall& call : part.calls) write_call(out, call, begin);
  }
  if (is_first) return;  // what came before it is not of this trace
  for (const MeasuredCall& call : step.between) write_call(out, call, begin);
}

std::string_view track_of(BackgroundKind kind) {
  switch (kind) {
    case BackgroundKind::kToDevice:
    case BackgroundKind::kToHost:
      return "copies";
    case BackgroundKind::kNvmeRead:
    case BackgroundKind::kNvmeWrite:
      return "swap files";
    case BackgroundKind::kUpdate:
      return "updates by the host";
    case BackgroundKind::kUpdateAhead:
      return "updates ahead";
  }
  throw InternalError("trace: work beside that has no track");
}

// Which track each has: of its kind the first that is free when it begins.
class BackgroundTracks {
 public:
  explicit BackgroundTracks(const std::vector<TracedBackground>& works) : track_of_(works.size()) {
    std::vector<size_t> order(works.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(
        order, {}, [&](size_t i) { return std::pair(track_of(works[i].kind), works[i].begin_ns); });
    for (const size_t i : order) {
      const TracedBackground& work = works[i];
      const auto free = std::ranges::find_if(tracks_, [&](const One& one) {
        return one.kind == track_of(work.kind) && one.busy_until <= work.begin_ns;
      });
      const auto track = static_cast<size_t>(free - tracks_.begin());
      if (free == tracks_.end()) tracks_.push_back({.kind = track_of(work.kind), .busy_until = 0});
      tracks_[track].busy_until = work.end_ns;
      track_of_[i] = static_cast<int>(kTracks.size() + 1 + track);
    }
  }

  int of(size_t work) const { return track_of_[work]; }
  // With those that every trace has.
  std::vector<std::string> names() const {
    std::vector<std::string> names(kTracks.begin(), kTracks.end());
    std::map<std::string_view, int> count;
    for (const One& one : tracks_) {
      const int number = ++count[one.kind];
      names.push_back(number == 1 ? std::string(one.kind) : fmt::format("{} {}", one.kind, number));
    }
    return names;
  }

 private:
  struct One {
    std::string_view kind;
    int64_t busy_until = 0;
  };
  std::vector<One> tracks_;
  std::vector<int> track_of_;
};

void write_beside(Writer& out, const TracedBackground& work, int track) {
  out.slice(static_cast<Track>(track), "beside",
            fmt::format("{} {}", name_of(work.kind), work.name),
            {out.time_of(work.begin_ns), out.time_of(work.end_ns)}, [&](JsonLine& args) {
              args.integer("bytes", work.bytes);
              if (work.is_under_way) args.boolean("under_way", true);
            });
}

}  // namespace

std::string trace_text(const RankTrace& trace) {
  Writer out(trace);
  const BackgroundTracks tracks(trace.beside);
  out.header(trace, tracks.names());
  for (const TracedStep& step : trace.steps) {
    write_step(out, step, &step == &trace.steps.front());
  }
  for (const TracedPhase& phase : trace.phases) {
    out.slice(Track::kBetween, "phase", phase.name,
              {out.time_of(phase.begin_ns), out.time_of(phase.end_ns)}, no_args);
  }
  for (size_t i = 0; i < trace.beside.size(); ++i) {
    write_beside(out, trace.beside[i], tracks.of(i));
  }
  out.footer();
  return out.take();
}

}  // namespace ds
