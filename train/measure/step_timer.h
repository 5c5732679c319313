// StepTimer: where the time of a step goes on this rank, by the clock of what computes: the parts
// that the step's program is made of, and the calls to peers in each. Others ask it after a step;
// it must be before them in the list of observers. Off, it looks at no clock.
#pragma once

#include <deque>
#include <optional>
#include <string_view>
#include <vector>

#include "comm/calls/timed_call.h"
#include "model/parallel/pipeline_schedule.h"
#include "train/settings/observers.h"

namespace ds {

struct MeasuredCall {
  std::string axis;
  CommOp op = CommOp::kBarrier;
  int64_t bytes = 0;
  int ranks = 1;
  std::string label;
  double begin_s = 0;  // since the step began
  double seconds = 0;
};

struct MeasuredPart {
  PipelineOp op = PipelineOp::kForwardPass;
  int micro_batch = -1;
  double begin_s = 0;  // since the step began
  double seconds = 0;
  std::vector<MeasuredCall> calls{};
};

struct MeasuredStep {
  int64_t step = 0;  // 1 for the first
  StreamMoment::Clock::time_point begin{};
  StreamMoment origin{};  // its beginning, by the clock of what computes
  std::vector<MeasuredPart> parts{};
  std::vector<MeasuredCall> between{};  // calls after the step before, in none of its parts
};

// Seconds of one step, all micro-steps together.
struct StepTimes {
  double load = 0;  // batches
  double forward = 0;
  double backward = 0;   // with the reduction of gradients
  double reduction = 0;  // of gradients, as far as it is not hidden behind the backward
  double update = 0;     // of the weights
  int micro_steps = 0;

  double backward_inner() const { return backward - reduction; }
  double sum() const { return load + forward + backward + update; }
};
StepTimes times_of(const MeasuredStep& step);

class StepTimer final : public StepObserver {
 public:
  // `calls`: those of the groups that this rank is in. Both must outlive the timer.
  StepTimer(Stream& stream, CallQueue& calls) : stream_(stream), calls_(calls) {}

  // Each user says what it needs; on as long as one of them needs it. From the next step on.
  void need() { calls_.turn(++users_ > 0); }
  void need_no_more() { calls_.turn(--users_ > 0); }

  // The step that was reported last, where it was measured from its beginning.
  const std::optional<MeasuredStep>& newest() const { return newest_; }

  void before_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_step(const StepReport& report) override;

 private:
  struct Part {
    PipelineInstruction instruction;
    StreamMoment begin, end;
    std::vector<TimedCall> calls;
  };
  struct Step {
    int64_t step = 0;
    std::vector<TimedCall> before;
    std::vector<Part> parts;
  };
  static MeasuredStep measured(Step step);

  Stream& stream_;
  CallQueue& calls_;
  int users_ = 0;
  std::deque<Step> under_way_;
  std::optional<MeasuredStep> newest_;
};

}  // namespace ds
