// The whole configuration: train.json as typed structs, one member per key, defaults in the
// initialisers. How it is read is config/load.h. The engine's constructors each get their own
// section.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "config/reader/fields.h"
#include "config/sections/adapters/lora.h"
#include "config/sections/attention.h"
#include "config/sections/autotuning.h"
#include "config/sections/checkpoint.h"
#include "config/sections/compression.h"
#include "config/sections/data_efficiency.h"
#include "config/sections/eigenvalue.h"
#include "config/sections/elasticity.h"
#include "config/sections/monitor.h"
#include "config/sections/objectives/preference.h"
#include "config/sections/optimizer.h"
#include "config/sections/parallel.h"
#include "config/sections/precision.h"
#include "config/sections/scheduler.h"
#include "config/sections/sequence_split.h"
#include "config/sections/training.h"
#include "config/sections/zero.h"

namespace ds {

enum class GradientReduction : int { kMean, kSum };
std::span<const EnumName> names_of(GradientReduction);

struct Config {
  ModelSection model;
  DataSection data;
  TrainSection train;
  std::optional<LoraConfig> lora;
  std::optional<PreferenceConfig> preference;
  CommunicationSection communication;
  MemorySection memory;
  // Any consistent one, two or three of them; config/batch.h infers the rest.
  std::optional<int64_t> train_batch_size;
  std::optional<int64_t> train_micro_batch_size_per_gpu;
  std::optional<int64_t> gradient_accumulation_steps;
  bool managed_gradient_accumulation = true;
  std::optional<int64_t> sequence_parallel_size;
  std::optional<int64_t> data_parallel_size;
  SequenceSplit sequence_parallel_attention = SequenceSplit::kUlysses;
  std::optional<int64_t> sequence_parallel_ring_size;
  double gradient_clipping = 1.0;
  std::optional<int64_t> steps_per_print = 10;
  bool wall_clock_breakdown = false;
  bool memory_breakdown = false;
  bool dump_state = false;
  std::optional<std::string> log_level;
  std::optional<int64_t> vocabulary_size;
  bool dataloader_drop_last = false;
  bool graph_harvesting = false;
  bool use_data_before_expert_parallelism = false;
  std::optional<FloatType> communication_data_type;
  std::optional<FloatType> seq_parallel_communication_data_type = FloatType::kFp32;
  bool prescale_gradients = false;
  double gradient_predivide_factor = 1.0;
  GradientReduction gradient_allreduce_op = GradientReduction::kMean;
  bool sparse_gradients = false;
  bool disable_allgather = false;
  bool zero_allow_untested_optimizer = false;
  bool zero_force_ds_cpu_optimizer = true;
  OptimizerConfig optimizer;
  SchedulerConfig scheduler;
  Fp16Config fp16;
  Bf16Config bf16;
  AmpConfig amp;
  TorchAutocastConfig torch_autocast;
  DataTypesConfig data_types;
  ZeroConfig zero_optimization;
  AioConfig aio;
  ActivationCheckpointingConfig activation_checkpointing;
  std::optional<SparseAttentionConfig> sparse_attention;
  PipelineConfig pipeline;
  TensorParallelConfig tensor_parallel;
  ExpertParallelConfig expert_parallel;
  CheckpointConfig checkpoint;
  ElasticityConfig elasticity;
  DataEfficiencyConfig data_efficiency;
  CurriculumLearningConfig curriculum_learning;
  ProgressiveLayerDropConfig progressive_layer_drop;
  CompressionConfig compression_training;
  TensorboardConfig tensorboard;
  WandbConfig wandb;
  CometConfig comet;
  CsvMonitorConfig csv_monitor;
  FlopsProfilerConfig flops_profiler;
  CommsLoggerConfig comms_logger;
  TimersConfig timers;
  AutotuningConfig autotuning;
  CompileConfig compile;
  HybridEngineConfig hybrid_engine;
  EigenvalueConfig eigenvalue;
  NebulaConfig nebula;
  Value datastates_ckpt;
  Value quantize_training;
  Value weight_quantization;
};
void fields(Visitor& v, Config& c);

// What stage3_gather_16bit_weights_on_model_save makes the weights of the saved model: the 16-bit
// type of fp16 or bf16; nothing without one of them, and at other ZeRO stages, where the key has no
// effect.
std::optional<FloatType> gathered_dtype(const Config& config);

// Steps from one printed line to the next; 0: none is printed.
int64_t printing_interval(const Config& config);

// The key by which weights of 16 bits are trained without fp32 masters, and gradients kept in their
// type; nothing: there are masters, or weights in fp32.
std::optional<std::string_view> key_without_masters(const Config& config);

}  // namespace ds
