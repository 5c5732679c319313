// Pipeline schedules (pure): the instructions that one stage carries out for one batch, for every
// schedule the pipeline engine knows. Nothing is executed here. A send never waits for its
// receiver; a receive waits for its message. Activations between two ranks arrive in the order in
// which they were sent, and gradients do, but a gradient and an activation may be received in
// another order (kZeroBubbleV does so): each kind goes through a channel of its own.
#pragma once

#include <vector>

#include "model/parallel/pipeline_instruction.h"

namespace ds {

// These say where a chunk sits in the chain of virtual stages 0 .. stages * chunks - 1, and back.
int virtual_stage(PipelineKind kind, const PipelineShape& shape, int stage, int chunk);
int stage_of(PipelineKind kind, const PipelineShape& shape, int virtual_stage);

// One stage's part. A barrier may stand between two steps of kInference, kDataParallel and k1F1B
// (an idle step is empty); the others are plain sequences with one compute instruction a step. The
// last step ends with the reductions and the optimizer step, except in kInference.
struct PipelineSchedule {
  int buffer_count = 0;
  std::vector<std::vector<PipelineInstruction>> steps;
};

// Throws ConfigError for sizes below 1, a stage outside the pipeline, a number of chunks that the
// kind does not have, or (kInterleaved) micro-batches that are not a multiple of the stages.
PipelineSchedule pipeline_schedule(PipelineKind kind, const PipelineShape& shape, int stage);

// Forward passes alone, over chunks that lie where those of `kind` do: each micro-batch goes
// through a stage's chunks in their order. Every chunk of a micro-batch has a buffer of its own.
PipelineSchedule forward_schedule(PipelineKind kind, const PipelineShape& shape, int stage);

}  // namespace ds
