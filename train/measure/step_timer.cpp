#include "train/measure/step_timer.h"

#include <algorithm>

namespace ds {
namespace {

std::vector<MeasuredCall> measured_calls(std::vector<TimedCall> calls, const StreamMoment& origin) {
  std::vector<MeasuredCall> out;
  out.reserve(calls.size());
  for (TimedCall& call : calls) {
    out.push_back({.axis = std::move(call.axis),
                   .op = call.op,
                   .bytes = call.bytes,
                   .ranks = call.ranks,
                   .label = std::move(call.label),
                   .begin_s = call.begin.seconds_since(origin),
                   .seconds = call.end.seconds_since(call.begin)});
  }
  return out;
}

bool reduces(const MeasuredCall& call) {
  return call.op == CommOp::kAllReduce || call.op == CommOp::kReduceScatter;
}

double reduction_of(const MeasuredPart& part) {
  double seconds = 0;
  for (const MeasuredCall& call : part.calls) {
    if (reduces(call)) seconds += call.seconds;
  }
  return std::min(seconds, part.seconds);  // on a stream of its own it may go on behind the part
}

}  // namespace

StepTimes times_of(const MeasuredStep& step) {
  StepTimes times;
  for (const MeasuredPart& part : step.parts) {
    switch (part.op) {
      case PipelineOp::kLoadMicroBatch:
        times.load += part.seconds;
        break;
      case PipelineOp::kForwardPass:
        times.forward += part.seconds;
        ++times.micro_steps;
        break;
      case PipelineOp::kOptimizerStep:
        times.update += part.seconds;
        break;
      case PipelineOp::kReduceGrads:
      case PipelineOp::kReduceTiedGrads:
        times.backward += part.seconds;
        times.reduction += part.seconds;
        break;
      case PipelineOp::kBackwardPass:
      case PipelineOp::kBackwardInput:
      case PipelineOp::kBackwardWeight:
        times.backward += part.seconds;
        times.reduction += reduction_of(part);
        break;
      case PipelineOp::kSendActivation:
      case PipelineOp::kRecvActivation:
        times.forward += part.seconds;
        break;
      case PipelineOp::kSendGrad:
      case PipelineOp::kRecvGrad:
        times.backward += part.seconds;
        break;
    }
  }
  return times;
}

void StepTimer::before_instruction(int64_t steps_done, const PipelineInstruction& instruction) {
  if (users_ == 0) return;
  if (under_way_.empty() || under_way_.back().step != steps_done + 1) {
    under_way_.push_back({.step = steps_done + 1, .before = calls_.take(), .parts = {}});
  }
  under_way_.back().parts.push_back(
      {.instruction = instruction, .begin = StreamMoment::of(stream_), .end = {}, .calls = {}});
}

void StepTimer::after_instruction(int64_t /*steps_done*/, const PipelineInstruction&) {
  if (users_ == 0 || under_way_.empty()) return;
  Part& part = under_way_.back().parts.back();
  part.end = StreamMoment::of(stream_);
  part.calls = calls_.take();
}

MeasuredStep StepTimer::measured(Step step) {
  const StreamMoment origin = step.parts.front().begin;
  MeasuredStep out{.step = step.step, .begin = origin.given_at(), .origin = origin};
  out.between = measured_calls(std::move(step.before), origin);
  out.parts.reserve(step.parts.size());
  for (Part& part : step.parts) {
    out.parts.push_back({.op = part.instruction.op,
                         .micro_batch = part.instruction.micro_batch,
                         .begin_s = part.begin.seconds_since(origin),
                         .seconds = part.end.seconds_since(part.begin),
                         .calls = measured_calls(std::move(part.calls), origin)});
  }
  return out;
}

void StepTimer::after_step(const StepReport& report) {
  newest_.reset();
  while (!under_way_.empty() && under_way_.front().step <= report.step) {
    Step step = std::move(under_way_.front());
    under_way_.pop_front();
    if (step.step == report.step) newest_ = measured(std::move(step));
  }
}

}  // namespace ds
