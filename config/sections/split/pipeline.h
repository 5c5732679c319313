// What pipeline parallelism asks of a model and a batch (pure): every chunk of every stage has a
// layer, and some schedules cannot do with every number of micro-batches, or with a table that two
// ends share.
#pragma once

#include <cstdint>
#include <string>

#include "config/families/list.h"
#include "config/sections/parallel.h"

namespace ds {

struct PipelineSplit {
  int64_t stages = 1;  // ranks along the pipe axis
  int64_t chunks = 1;  // of the model, on each of them
  PipelineOrder schedule = PipelineOrder::k1F1B;

  bool is_cut() const { return stages > 1; }
};
PipelineSplit pipeline_split(const PipelineConfig& config);

// Why a model cannot be cut so; empty: it can.
std::string pipeline_conflict(const ModelConfig& model, const PipelineSplit& split);
// Why the schedule cannot do with so many micro-batches in a step; empty: it can.
std::string micro_batch_conflict(const PipelineSplit& split, int64_t micro_batches);

}  // namespace ds
