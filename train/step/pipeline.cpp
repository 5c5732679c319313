#include "train/step/pipeline.h"

#include "config/sections/split/pipeline.h"
#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/layers/pipeline_module.h"
#include "model/stores/second_model.h"

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

int64_t EngineOptions::losses_per_sample(const StepShape& shape) const {
  if (content.preference) return 1;
  return module ? module->parts().losses_per_sample : shape.length;
}

void require_module(const EngineOptions& options, const MeshLayout& mesh) {
  const PipelineModule& module = *options.module;
  if (mesh.size(Axis::kTensor) * mesh.size(Axis::kSequence) > 1) {
    throw Unsupported(fmt::format(
        "pipeline module: a mesh with tensor {} and sequence {}, expected 1 and 1: what its layers "
        "do is not known; take stages and data parallelism",
        mesh.size(Axis::kTensor), mesh.size(Axis::kSequence)));
  }
  if (options.recomputed.recompute.part != RecomputedPart::kNone ||
      options.recomputed.mlp_tiles != 1) {
    throw Unsupported(
        "pipeline module: parts of blocks are not known; take activation_checkpoint_interval");
  }
  DS_CHECK(options.length == 1, "pipeline module: EngineOptions::length is {}, expected 1",
           options.length);
  DS_CHECK(options.dtype == module.parts().dtype,
           "pipeline module: EngineOptions::dtype is {}, the layers have {}",
           name_of(options.dtype), name_of(module.parts().dtype));
}

namespace {

std::vector<LayerRange> cut(const EngineOptions& options, int parts) {
  const PipelineChoice& pipeline = options.pipeline;
  if (!options.module) return cut_model(options.model, pipeline.partition, parts);
  std::vector<LayerRange> ranges = options.module->cut(pipeline.partition, parts);
  const bool has_both_ends = pipeline.schedule == PipelineKind::kZeroBubbleV;
  if (has_both_ends && options.module->shares_beyond(ranges.front())) {
    throw ConfigError(
        "pipeline module: with zb_v one rank has the first and the last layers, which cannot be "
        "tied then; take zb_h1 or 1f1b");
  }
  return ranges;
}

}  // namespace

std::vector<LayerRange> layers_of_chunks(const EngineOptions& options, const PipelinePlace& place) {
  if (place.stages == 1) {
    return {options.module ? LayerRange{0, options.module->layer_count()}
                           : all_layers(options.model)};
  }
  const PipelineChoice& pipeline = options.pipeline;
  const PipelineShape shape = pipeline_shape(options, place.stages);
  const std::vector<LayerRange> all = cut(options, shape.stages * shape.chunks);
  std::vector<LayerRange> here;
  for (int chunk = 0; chunk < shape.chunks; ++chunk) {
    here.push_back(nth(all, virtual_stage(pipeline.schedule, shape, place.stage, chunk)));
  }
  return here;
}

namespace {

// Its parameters come after all of the model's own ones.
void add_teacher(const EngineOptions& options, ParameterStore& store, const TensorPlace& tensor,
                 Stage& stage) {
  const DistillationOptions& how = *options.distillation;
  DS_CHECK(options.model.teacher != nullptr,
           "engine: a model is to learn from a teacher, and has "
           "none");
  SecondModelStore beside(store, std::string(kTeacherPrefix),
                          narrow<int>(all_layers(options.model).end));
  const ModelConfig& teacher = options.model.teacher->model;
  stage.learn_from(
      {.teacher = make_stage(teacher, options.dtype, beside, all_layers(teacher), {}, tensor),
       .rule = how.rule,
       .blocks = how.blocks,
       .blocks_weight = static_cast<float>(how.blocks_weight)});
}

}  // namespace

std::unique_ptr<PipelineStage> make_chunk(const EngineOptions& options, ParameterStore& store,
                                          LayerRange layers, const RecomputedBlocks& recomputed,
                                          const TensorPlace& tensor) {
  if (options.module) return options.module->make_stage(store, layers);
  std::unique_ptr<Stage> stage =
      make_stage(options.model, options.dtype, store, layers,
                 {.recomputed = recomputed, .preference = options.content.preference}, tensor);
  if (options.distillation) add_teacher(options, store, tensor, *stage);
  return stage;
}

std::vector<ParamSpec> specs_of_layers(const EngineOptions& options, const TensorPlace& tensor) {
  if (options.module) return options.module->specs();
  return specs_of_model(options.model, options.dtype, tensor);
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
