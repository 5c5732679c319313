#include "train/trace/trace_recorder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/tasks/host.h"
#include "core/values/index.h"

namespace ds {
namespace {

int64_t nanoseconds_of(StreamMoment::Clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(at.time_since_epoch()).count();
}

int64_t now_ns() { return nanoseconds_of(StreamMoment::Clock::now()); }

int64_t events_of(const MeasuredStep& step) {
  auto events = narrow<int64_t>(step.parts.size() + step.between.size());
  for (const MeasuredPart& part : step.parts) events += narrow<int64_t>(part.calls.size());
  return events;
}

}  // namespace

void PhaseWatch::report_progress(const Progress& progress) {
  reports_.report_progress(progress);
  if (!is_on_ || progress.phase == now_.name) return;
  end_phase();
  if (progress.phase != "train") now_ = {.name = progress.phase, .begin_ns = now_ns()};
}

void PhaseWatch::end_phase() {
  if (now_.name.empty()) return;
  now_.end_ns = now_ns();
  over_.push_back(std::exchange(now_, {}));
}

void PhaseWatch::turn(bool on) {
  is_on_ = on;
  over_.clear();
  now_ = {};
}

std::vector<TracedPhase> PhaseWatch::take() {
  end_phase();
  return std::exchange(over_, {});
}

TraceRecorder::TraceRecorder(HostExchange& host, StepTimer& timer, OpLog& ops, PhaseWatch& phases,
                             Options options)
    : host_(host), timer_(timer), log_(ops), phases_(phases), options_(std::move(options)) {}

void TraceRecorder::execute(const TraceOrder& order) {
  if (steps_left_ > 0) finish();
  if (order.steps <= 0) return;
  const SharedClock clock = share_clock(host_, now_ns);
  if (!order.is_for(options_.rank)) return;
  trace_ = {.rank = options_.rank, .host = own_host_name(), .clock = clock};
  steps_left_ = order.steps;
  events_ = 0;
  timer_.need();
  phases_.turn(true);
  turn_beside(true);
}

void TraceRecorder::turn_beside(bool on) {
  if (options_.beside != nullptr) options_.beside->turn(on);
}

void TraceRecorder::before_instruction(int64_t steps_done,
                                       const PipelineInstruction& /*instruction*/) {
  if (steps_left_ == 0) return;
  if (under_way_.empty() || under_way_.back().step != steps_done + 1) {
    under_way_.push_back({.step = steps_done + 1, .parts = {}, .beside = {}});
  }
  log_.add(now_);
}

void TraceRecorder::after_instruction(int64_t /*steps_done*/,
                                      const PipelineInstruction& /*instruction*/) {
  if (steps_left_ == 0) return;
  log_.remove(now_);
  now_.resize(room_for(now_.size()));
  under_way_.back().parts.push_back(std::exchange(now_, {}));
  if (options_.beside == nullptr) return;
  std::vector<BackgroundWork> beside = options_.beside->take();
  beside.resize(room_for(beside.size()));
  std::ranges::move(beside, std::back_inserter(under_way_.back().beside));
}

size_t TraceRecorder::room_for(size_t events) {
  const size_t room =
      std::min(events, to_size(std::max<int64_t>(0, options_.most_events - events_)));
  trace_.left_out += narrow<int64_t>(events - room);
  events_ += narrow<int64_t>(room);
  return room;
}

// What the step's streams did, by their clock, which began when the step did.
void TraceRecorder::keep_beside(std::vector<BackgroundWork> works, const MeasuredStep& measured) {
  for (BackgroundWork& work : works) {
    const double begin_s = work.begin.seconds_since(measured.origin);
    const int64_t begin = nanoseconds_of(measured.begin) + std::llround(begin_s * 1e9);
    trace_.beside.push_back({.kind = work.kind,
                             .name = std::move(work.name),
                             .bytes = work.bytes,
                             .begin_ns = begin,
                             .end_ns = begin + std::llround(work.seconds() * 1e9),
                             .is_under_way = work.is_under_way});
  }
}

void TraceRecorder::keep(const MeasuredStep& measured, Ops ops) {
  TracedStep step{.measured = measured, .begin_ns = nanoseconds_of(measured.begin), .ops = {}};
  for (std::vector<LoggedOp>& part : ops.parts) {
    std::vector<TracedOp>& out = step.ops.emplace_back();
    out.reserve(part.size());
    for (LoggedOp& op : part) {
      out.push_back({.label = std::move(op.label),
                     .name = std::move(op.name),
                     .cost = op.cost,
                     .begin_s = op.begin.seconds_since(measured.origin)});
    }
  }
  events_ += events_of(measured);
  trace_.steps.push_back(std::move(step));
}

void TraceRecorder::after_step(const StepReport& report) {
  if (steps_left_ == 0 || under_way_.empty() || under_way_.front().step != report.step) return;
  Ops ops = std::move(under_way_.front());
  under_way_.erase(under_way_.begin());
  if (timer_.newest() && timer_.newest()->step == report.step) {
    keep_beside(std::move(ops.beside), *timer_.newest());
    keep(*timer_.newest(), std::move(ops));
  }
  if (--steps_left_ == 0 || events_ >= options_.most_events) finish();
}

void TraceRecorder::before_exit(RunEnd /*end*/) {
  if (steps_left_ > 0) finish();
}

void TraceRecorder::finish() {
  steps_left_ = 0;
  under_way_.clear();
  timer_.need_no_more();
  trace_.phases = phases_.take();
  phases_.turn(false);
  if (options_.beside != nullptr && !trace_.steps.empty()) {
    keep_beside(options_.beside->take_under_way(), trace_.steps.back().measured);
  }
  turn_beside(false);
  const std::string text = trace_text(std::exchange(trace_, {}));
  constexpr size_t kPiece = 128 << 10;
  for (size_t at = 0; at < text.size(); at += kPiece) {
    options_.send(text.substr(at, kPiece), at + kPiece >= text.size());
  }
}

}  // namespace ds
