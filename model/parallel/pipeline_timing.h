// How long a pipeline schedule takes (pure): plays all stages' instructions against each other with
// a cost for each kind of work, and finds deadlocks. The figures are exact for the given costs;
// contention is not modelled.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/parallel/pipeline_schedule.h"

namespace ds {

// In any one unit of time. A kBackwardPass costs backward_input + backward_weight.
struct PipelineCosts {
  int64_t forward = 1;
  int64_t backward_input = 1;
  int64_t backward_weight = 1;
  int64_t message = 0;  // from the end of the sender's work until the receiver may start
};

struct PipelineStageTime {
  int64_t start = 0;  // of the first work
  int64_t end = 0;    // of the last work, before the reductions
  int64_t busy = 0;
  int64_t activations_peak = 0;  // micro-batches (of one chunk) whose activations are held at once
  int64_t idle_inside() const { return end - start - busy; }
};

struct PipelineTime {
  std::vector<PipelineStageTime> stages;
  int64_t makespan = 0;  // of the slowest stage, from time 0
};

// `stages[s]` is the schedule of stage s. Throws InternalError when a receive has no matching send,
// or when the stages wait for one another in a circle; the message names the first stuck
// instruction.
PipelineTime time_pipeline(std::span<const PipelineSchedule> stages, const PipelineCosts& costs);

// The same where stages and chunks differ: what each forward, backward, B and W takes.
using InstructionCost = std::function<int64_t(int stage, const PipelineInstruction& work)>;
PipelineTime time_pipeline(std::span<const PipelineSchedule> stages, const InstructionCost& cost,
                           int64_t message);

}  // namespace ds
