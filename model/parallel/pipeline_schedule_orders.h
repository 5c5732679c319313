// The order of compute work per rank for the schedules that are plain sequences (pure): which
// forward, backward, B or W of which micro-batch and chunk follows which. pipeline_schedule.cpp
// adds buffers and messages.
#pragma once

#include <vector>

#include "model/parallel/pipeline_instruction.h"

namespace ds::detail {

struct PipelineWork {
  PipelineOp op;
  int chunk;
  int micro_batch;
};

std::vector<PipelineWork> gpipe_order(int micro_batches);
std::vector<PipelineWork> interleaved_order(const PipelineShape& shape, int stage);
std::vector<PipelineWork> zero_bubble_h1_order(const PipelineShape& shape, int stage);
std::vector<PipelineWork> zero_bubble_v_order(const PipelineShape& shape, int stage);

}  // namespace ds::detail
