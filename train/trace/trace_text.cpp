#include "train/trace/trace_text.h"

#include <fmt/format.h>

#include <cmath>

#include "comm/operation.h"
#include "core/index.h"
#include "train/monitor/json_line.h"

namespace ds {
namespace {

enum class Track { kCompute = 1, kPeers = 2, kBetween = 3 };

struct Extent {
  int64_t begin = 0, end = 0;  // nanoseconds since the trace began, by rank 0's clock
};

// Of microseconds, three digits behind the point.
std::string micros(int64_t ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / 1000, std::abs(ns) % 1000);
}

class Writer {
 public:
  explicit Writer(const RankTrace& trace)
      : rank_(trace.rank), zero_(trace.clock.offset_ns + trace.clock.begin_ns) {}

  int64_t time_of(int64_t own_clock_ns) const { return own_clock_ns - zero_; }
  int64_t events() const { return events_; }
  std::string take() { return std::move(text_); }

  // `args`: an object, as JsonLine makes it.
  void slice(Track track, std::string_view kind, std::string_view name, const Extent& extent,
             const std::string& args) {
    JsonLine head;
    head.text("name", name).text("cat", kind);
    std::string line = head.take_object();
    line.pop_back();  // its bracket
    text_ += fmt::format(
        "{}, \"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"ts\": {}, \"dur\": {}, \"args\": {}}}\n",
        line, rank_, static_cast<int>(track), micros(extent.begin),
        micros(extent.end - extent.begin), args);
    ++events_;
  }
  void header(const RankTrace& trace) {
    JsonLine line;
    line.integer("rank", trace.rank).text("host", trace.host);
    line.integer("first_step", trace.steps.empty() ? 0 : trace.steps.front().measured.step);
    line.integer("steps", narrow<int64_t>(trace.steps.size()));
    line.integer("clock_offset_ns", trace.clock.offset_ns).integer("left_out", trace.left_out);
    text_ += line.take();
  }
  void footer() {
    JsonLine line;
    text_ += line.integer("events", events_).take();
  }

 private:
  const int rank_;
  const int64_t zero_;  // of the trace, by this rank's clock
  int64_t events_ = 0;
  std::string text_;
};

std::string no_args() { return JsonLine().take_object(); }

int64_t nanos(double seconds) { return std::llround(seconds * 1e9); }

Extent extent_of(const MeasuredPart& part, int64_t step_begin) {
  return {step_begin + nanos(part.begin_s), step_begin + nanos(part.begin_s + part.seconds)};
}

// Kernels end where the next one begins; a module's are those in a row that have its path.
void write_ops(Writer& out, const std::vector<TracedOp>& ops, int64_t step_begin,
               const Extent& part) {
  const auto begin_of = [&](size_t i) {
    return i < ops.size() ? std::clamp(step_begin + nanos(ops[i].begin_s), part.begin, part.end)
                          : part.end;
  };
  for (size_t first = 0; first < ops.size();) {
    size_t end = first;
    while (end < ops.size() && ops[end].label == ops[first].label) ++end;
    if (!ops[first].label.empty()) {
      out.slice(Track::kCompute, "module", ops[first].label, {begin_of(first), begin_of(end)},
                no_args());
    }
    for (; first < end; ++first) {
      JsonLine args;
      args.real("flops", ops[first].cost.flops).real("bytes", ops[first].cost.bytes);
      out.slice(Track::kCompute, "kernel", ops[first].name, {begin_of(first), begin_of(first + 1)},
                args.take_object());
    }
  }
}

void write_call(Writer& out, const MeasuredCall& call, int64_t step_begin) {
  JsonLine args;
  args.text("group", call.axis).text("for", call.label).integer("bytes", call.bytes);
  args.integer("wire_bytes", wire_bytes(call.op, call.ranks, call.bytes));
  args.integer("ranks", call.ranks);
  out.slice(Track::kPeers, "collective", name_of(call.op),
            {step_begin + nanos(call.begin_s), step_begin + nanos(call.begin_s + call.seconds)},
            args.take_object());
}

// One slice around the parts of each micro-step; of pipelines, whose micro-steps take turns, none.
void write_micro_steps(Writer& out, const MeasuredStep& step, int64_t begin) {
  std::vector<std::pair<int, Extent>> found;
  for (const MeasuredPart& part : step.parts) {
    if (part.micro_batch < 0) continue;
    const Extent extent = extent_of(part, begin);
    if (!found.empty() && found.back().first == part.micro_batch) {
      found.back().second.end = extent.end;
      continue;
    }
    const bool came_before = std::ranges::any_of(
        found, [&](const auto& other) { return other.first == part.micro_batch; });
    if (came_before) return;
    found.emplace_back(part.micro_batch, extent);
  }
  for (const auto& [micro_batch, extent] : found) {
    JsonLine args;
    args.integer("micro_step", micro_batch);
    out.slice(Track::kCompute, "micro-step", fmt::format("micro-step {}", micro_batch), extent,
              args.take_object());
  }
}

void write_step(Writer& out, const TracedStep& traced, bool is_first) {
  const MeasuredStep& step = traced.measured;
  const int64_t begin = out.time_of(traced.begin_ns);
  if (step.parts.empty()) return;
  JsonLine args;
  args.integer("step", step.step);
  out.slice(Track::kCompute, "step", fmt::format("step {}", step.step),
            {begin, extent_of(step.parts.back(), begin).end}, args.take_object());
  write_micro_steps(out, step, begin);
  for (size_t i = 0; i < step.parts.size(); ++i) {
    const MeasuredPart& part = step.parts[i];
    const Extent extent = extent_of(part, begin);
    const std::string_view kind = part.op == PipelineOp::kLoadMicroBatch ? "copy" : "part";
    out.slice(Track::kCompute, kind, to_string(part.op), extent, no_args());
    if (i < traced.ops.size()) write_ops(out, traced.ops[i], begin, extent);
    for (const MeasuredCall& call : part.calls) write_call(out, call, begin);
  }
  if (is_first) return;  // what came before it is not of this trace
  for (const MeasuredCall& call : step.between) write_call(out, call, begin);
}

}  // namespace

std::string trace_text(const RankTrace& trace) {
  Writer out(trace);
  out.header(trace);
  for (const TracedStep& step : trace.steps) {
    write_step(out, step, &step == &trace.steps.front());
  }
  for (const TracedPhase& phase : trace.phases) {
    out.slice(Track::kBetween, "phase", phase.name,
              {out.time_of(phase.begin_ns), out.time_of(phase.end_ns)}, no_args());
  }
  out.footer();
  return out.take();
}

}  // namespace ds
