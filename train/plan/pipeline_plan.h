// How long the stages of a pipeline take together (pure): each instruction as long as the dry run
// of its stage says, in the order of the schedule, and how much of that time stages wait for each
// other (the bubble).
#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "train/step/pipeline.h"

namespace ds {

// WorkSeconds is how long one rank works in one step.
struct WorkSeconds {
  std::map<std::pair<int, PipelineOp>, double> each;  // by (chunk, operation): of one micro-batch
  double ending = 0;                                  // of what follows the last micro-batch
};

struct PipelinePlan {
  PipelineKind schedule = PipelineKind::k1F1B;
  int micro_batches = 1;
  std::vector<std::vector<LayerRange>> layers;  // by stage and chunk
  double seconds = 0;                           // of a step
  double bubble = 0;                            // share of the stages' time before they reduce
};

// `work`: by stage. `message`: seconds from the end of the sender's work until the receiver's may
// begin.
PipelinePlan plan_pipeline(const EngineOptions& options, std::span<const WorkSeconds> work,
                           double message);
// Returns the work of ranks that share that of a stage: the slowest at each part of it.
WorkSeconds slower_of(const WorkSeconds& one, const WorkSeconds& other);

}  // namespace ds
