#include "train/step/pipeline.h"

#include "config/sections/split/pipeline.h"
#include "core/index.h"
#include "model/families/zoo.h"

namespace ds {
namespace {

PipelineKind kind_of(PipelineOrder order) {
  switch (order) {
    case PipelineOrder::kGpipe:
      return PipelineKind::kGpipe;
    case PipelineOrder::k1F1B:
      return PipelineKind::k1F1B;
    case PipelineOrder::kInterleaved:
      return PipelineKind::kInterleaved;
    case PipelineOrder::kZeroBubbleH1:
      return PipelineKind::kZeroBubbleH1;
    case PipelineOrder::kZeroBubbleV:
      return PipelineKind::kZeroBubbleV;
  }
  throw InternalError("unknown schedule of a pipeline");
}

}  // namespace

PipelineChoice pipeline_choice(const PipelineConfig& c) {
  const PipelineSplit split = pipeline_split(c);
  return {.schedule = kind_of(split.schedule),
          .chunks = narrow<int>(split.chunks),
          .partition = c.partition,
          .shares_activations = c.pipe_partitioned,
          .shares_gradients = c.grad_partitioned};
}

void require_stages(const PipelineConfig& config, const ModelConfig& model) {
  const PipelineSplit split = pipeline_split(config);
  if (!split.is_cut()) return;
  if (const std::string why = pipeline_conflict(model, split); !why.empty()) {
    throw ConfigError(fmt::format("pipeline.stages: {}", why));
  }
  cut_model(model, config.partition, narrow<int>(split.stages * split.chunks));
}

PipelineShape pipeline_shape(const EngineOptions& options, int stages) {
  return {
      .micro_batches = options.micro_steps(), .stages = stages, .chunks = options.pipeline.chunks};
}

std::vector<LayerRange> layers_of_chunks(const EngineOptions& options, const PipelinePlace& place) {
  if (place.stages == 1) return {all_layers(options.model)};
  const PipelineChoice& pipeline = options.pipeline;
  const PipelineShape shape = pipeline_shape(options, place.stages);
  const std::vector<LayerRange> all =
      cut_model(options.model, pipeline.partition, shape.stages * shape.chunks);
  std::vector<LayerRange> here;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    here.push_back(nth(all, virtual_stage(pipeline.schedule, shape, place.stage, chunk)));
  }
  return here;
}

StepProgram training_program(const EngineOptions& options, const PipelinePlace& place) {
  if (place.stages == 1) {
    return step_program(PipelineKind::kDataParallel, {.micro_batches = options.micro_steps()}, 0);
  }
  return step_program(options.pipeline.schedule, pipeline_shape(options, place.stages),
                      place.stage);
}

StepProgram evaluation_program(const EngineOptions& options, const PipelinePlace& place) {
  if (place.stages == 1) return step_program(PipelineKind::kInference, {.micro_batches = 1}, 0);
  PipelineShape one = pipeline_shape(options, place.stages);
  one.micro_batches = 1;
  return step_program(forward_schedule(options.pipeline.schedule, one, place.stage));
}

}  // namespace ds
