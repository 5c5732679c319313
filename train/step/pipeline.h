// How an engine's model lies along the pipe axis (pure): which layers each rank has, and what it
// does in a step and in an evaluation. One stage is the whole model, and its programs are those of
// gradient accumulation.
#pragma once

#include <memory>
#include <vector>

#include "comm/mesh_layout.h"
#include "config/sections/parallel.h"
#include "model/exchange/tensor.h"
#include "train/settings/engine_options.h"
#include "train/step/step_runner.h"

namespace ds {

PipelineChoice pipeline_choice(const PipelineConfig& config);
// ConfigError where the model cannot be cut into the stages that are asked for.
void require_stages(const PipelineConfig& config, const ModelConfig& model);

struct PipelinePlace {
  int stage = 0;
  int stages = 1;
};

// Checks what the engine needs to know of a module. Throws Unsupported for what only a model has.
void require_module(const EngineOptions& options, const MeshLayout& mesh);

PipelineShape pipeline_shape(const EngineOptions& options, int stages);
// Returns the layers of the rank's chunks, in their order in the model. Throws ConfigError if the
// model cannot be cut so.
std::vector<LayerRange> layers_of_chunks(const EngineOptions& options, const PipelinePlace& place);
// Such layers, with their parameters in the store.
std::unique_ptr<PipelineStage> make_chunk(const EngineOptions& options, ParameterStore& store,
                                          LayerRange layers, const RecomputedBlocks& recomputed,
                                          const TensorPlace& tensor);
// The parameters of all layers, as such a rank has them.
std::vector<ParamSpec> specs_of_layers(const EngineOptions& options, const TensorPlace& tensor);
// ConfigError as pipeline_schedule() throws it.
StepProgram training_program(const EngineOptions& options, const PipelinePlace& place);
StepProgram evaluation_program(const EngineOptions& options, const PipelinePlace& place);

}  // namespace ds
