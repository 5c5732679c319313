// How the model is spread: pipeline, tensor_parallel, expert_parallel; and the sections of features
// that change execution as a whole (compile, hybrid_engine).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class TpModel : int { kLlama, kBloom, kChatglm, kMixtral, kDeepseekV2, kQwen2, kPhi3 };
std::span<const EnumName> names_of(TpModel);
enum class PartitionType : int { kRow, kColumn, kSkip };
std::span<const EnumName> names_of(PartitionType);
enum class ScoreFunction : int { kAuto, kSoftmax, kSigmoid };
std::span<const EnumName> names_of(ScoreFunction);
enum class ScoreApply : int { kAuto, kPre, kPost };
std::span<const EnumName> names_of(ScoreApply);

// In which order a stage works on micro-batches.
enum class PipelineOrder : int { kGpipe, k1F1B, kInterleaved, kZeroBubbleH1, kZeroBubbleV };
std::span<const EnumName> names_of(PipelineOrder);

struct PipelineConfig {
  std::optional<int64_t> stages;
  std::string partition = "best";
  PipelineOrder schedule = PipelineOrder::k1F1B;
  int64_t chunks = 2;
  bool seed_layers = false;
  int64_t activation_checkpoint_interval = 0;
  bool pipe_partitioned = true;
  bool grad_partitioned = true;
  bool use_reentrant = true;
};
void fields(Visitor& v, PipelineConfig& c);

struct TpSizeConfig {
  int64_t tp_size = 1;
  int64_t tp_grain_size = 1;
};
void fields(Visitor& v, TpSizeConfig& c);

struct LayerSpecConfig {
  std::vector<std::string> patterns;
  PartitionType partition_type = PartitionType::kColumn;
  Value shape;
  std::optional<int64_t> partition_dim;
  std::optional<std::vector<std::string>> model_types;
};
void fields(Visitor& v, LayerSpecConfig& c);

struct PartitionConfig {
  bool use_default_specs = true;
  std::vector<LayerSpecConfig> layer_specs;
};
void fields(Visitor& v, PartitionConfig& c);

struct TensorParallelConfig {
  int64_t autotp_size = 0;
  bool tp_overlap_comm = false;
  TpSizeConfig tp;
  bool sequence_parallel = false;
  std::string dtype = "fp16";
  std::optional<TpModel> preset_model;
  std::optional<PartitionConfig> partition_config;
};
void fields(Visitor& v, TensorParallelConfig& c);

struct ExpertParallelConfig {
  bool enabled = false;
  int64_t autoep_size = 1;
  int64_t expert_tensor_parallel_size = 1;
  std::optional<std::string> preset_model;
  std::optional<std::string> moe_layer_pattern;
  std::optional<std::string> expert_pattern;
  std::optional<std::string> router_pattern;
  bool use_grouped_mm = true;
  std::optional<int64_t> top_k;
  ScoreFunction score_func = ScoreFunction::kAuto;
  ScoreApply score_apply = ScoreApply::kAuto;
  std::optional<double> load_balance_coeff;
};
void fields(Visitor& v, ExpertParallelConfig& c);

struct CompileConfig {
  bool deepcompile = false;
  bool free_activation = false;
  int64_t free_activation_threshold = 10485760;
  bool offload_activation = false;
  bool offload_activation_pin_memory = true;
  bool offload_opt_states = false;
  bool double_buffer = true;
  bool symmetric_memory = false;
  bool debug_log = false;
  bool offload_parameters = false;
  bool sync_before_reduce = false;
  bool sync_after_reduce = false;
  bool sync_before_allgather = false;
  bool sync_after_allgather = false;
  bool keep_int_input_tensors = true;
  bool keep_all_input_tensors = false;
  std::optional<std::vector<std::string>> passes;
};
void fields(Visitor& v, CompileConfig& c);

struct HybridEngineConfig {
  bool enabled = false;
  int64_t max_out_tokens = 512;
  int64_t inference_tp_size = 1;
  bool release_inference_cache = false;
  bool pin_parameters = true;
  int64_t tp_gather_partition_size = 8;
  bool enable_cuda_graph = false;
};
void fields(Visitor& v, HybridEngineConfig& c);

}  // namespace ds
