// What is trained and how: everything that an engine is told before it knows where it runs.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/families/list.h"
#include "kernels/attention/attention_choice.h"
#include "kernels/matmul/matmul.h"
#include "model/modules/stage.h"
#include "model/parallel/pipeline_schedule.h"
#include "model/pass/context.h"
#include "optim/rule_optimizer.h"
#include "train/settings/eigenvalue_options.h"
#include "train/settings/step_settings.h"
#include "zero/shard_group.h"

namespace ds {

// How the model is cut where ranks along the pipe axis have parts of it.
struct PipelineChoice {
  PipelineKind schedule = PipelineKind::k1F1B;
  int chunks = 1;                  // of the model, on each rank
  std::string partition = "best";  // see cut_model()
  // What ranks that share layers have alike travels once.
  bool shares_activations = true;
  bool shares_gradients = true;
};

// How ranks along the tensor axis share layers.
struct SharedLayers {
  int64_t grain = 1;  // see TensorPlace
  bool rows = false;  // see ParallelOptions::shares_rows
};

// What is so on CUDA devices.
struct GpuRules {
  bool graphs = true;  // where the data group can be recorded, steps are recorded and replayed
  kernels::MatmulRules matmul{};
  kernels::AttentionRules attention{};
};

// How the model learns from its teacher, which ModelConfig::teacher is.
struct DistillationOptions {
  kernels::DistillationRule rule{};
  std::vector<MatchedBlocks> blocks{};
  double blocks_weight = 1;
  int64_t last_step = INT64_MAX;  // with the teacher

  std::vector<std::string_view> figures() const;  // that steps with it tell beside their loss
};

class PipelineModule;  // model/layers/pipeline_module.h

struct EngineOptions {
  ModelConfig model;
  // Layers that are trained in place of `model`, which then says nothing; dtype is theirs.
  std::shared_ptr<const PipelineModule> module = nullptr;
  DType dtype = DType::kF32;         // of weights and activations
  Operands operands = std::nullopt;  // of products, where they are of another one
  ZeroOptions zero;                  // the engine names its optimizer there
  OptimizerConfig optimizer;
  SchedulerConfig schedule;      // without a type: none
  double gradient_clipping = 0;  // 0: off
  LossScaleRule loss_scale{};
  // What gradients have more than those of the mean loss from the loss to the update.
  double gradient_factor = 1;
  int64_t micro_batch = 1;                            // samples per rank and micro-step
  int64_t length = 1;                                 // tokens per sample; with a module 1
  BatchContent content{};                             // what samples hold beside tokens and targets
  std::optional<DistillationOptions> distillation{};  // with a teacher
  // If a curriculum says how long samples are, steps have the beginnings of theirs.
  std::optional<CurriculumOptions> lengths = std::nullopt;
  SharedLayers shared_layers{};
  PipelineChoice pipeline{};
  uint64_t seed = 1234;
  int64_t last_step = INT64_MAX;  // of the run, where it is known: what a plan is of
  RecomputedBlocks recomputed{};
  GpuRules gpu{};
  // Checkpoints have what trains: what is frozen lies in the folder that training began with.
  bool excludes_frozen = false;
  bool offload_activations = false;  // to memory of the host, until the backward pass needs them
  std::optional<EigenvalueOptions> eigenvalues = std::nullopt;  // that somebody looks for
  int64_t sample_length = 0;  // tokens of a text that somebody has the model go on with; 0: nobody

  int micro_steps() const { return zero.wire.micro_steps; }
  int64_t losses_per_sample(const StepShape& shape) const;
};

}  // namespace ds
