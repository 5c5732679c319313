#include "config/sections/split/pipeline.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds {

PipelineSplit pipeline_split(const PipelineConfig& config) {
  const int64_t stages = std::max<int64_t>(1, config.stages.value_or(1));
  if (stages == 1) return {};
  const int64_t chunks = config.schedule == PipelineOrder::kInterleaved   ? config.chunks
                         : config.schedule == PipelineOrder::kZeroBubbleV ? 2
                                                                          : 1;
  return {.stages = stages, .chunks = chunks, .schedule = config.schedule};
}

std::string pipeline_conflict(const ModelConfig& model, const PipelineSplit& split) {
  if (!split.is_cut()) return "";
  const int64_t blocks = dimensions(model).layers, layers = blocks + 2;
  if (split.stages > layers / split.chunks) {
    return fmt::format(
        "{} stages{} need a layer each, and the model has {} (the embedding, {} blocks and the "
        "head); expected at most {} stages",
        split.stages, split.chunks > 1 ? fmt::format(" of {} chunks", split.chunks) : "", layers,
        blocks, layers / split.chunks);
  }
  if (ties_embeddings(model) && split.schedule == PipelineOrder::kZeroBubbleV) {
    return "the schedule zb_v has the first and the last layer on one rank, in two chunks that "
           "cannot share the table of a tied embedding; take another schedule, or "
           "tie_word_embeddings false";
  }
  return "";
}

std::string micro_batch_conflict(const PipelineSplit& split, int64_t micro_batches) {
  const bool in_rounds =
      split.is_cut() && split.chunks > 1 && split.schedule == PipelineOrder::kInterleaved;
  if (!in_rounds || micro_batches % split.stages == 0) return "";
  return fmt::format(
      "{} micro-batches in a step (gradient_accumulation_steps) are not a multiple of {} stages, "
      "in whose rounds the interleaved schedule works",
      micro_batches, split.stages);
}

}  // namespace ds
