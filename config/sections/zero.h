// The zero_optimization section with its parts, and the aio section of the NVMe tier.
// Sizes of buckets and thresholds count parameters (elements), not bytes, unless a name says bytes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

enum class OffloadDevice : int { kNone, kCpu, kNvme };
std::span<const EnumName> names_of(OffloadDevice);
enum class ZenflowStrategy : int { kAuto, kStep, kEpoch };
std::span<const EnumName> names_of(ZenflowStrategy);

struct OffloadParamConfig {
  OffloadDevice device = OffloadDevice::kCpu;
  std::string nvme_path = "/local_nvme";
  bool pin_memory = false;
  int64_t buffer_count = 5;
  int64_t buffer_size = 100000000;
  int64_t max_in_cpu = 1000000000;
};
void fields(Visitor& v, OffloadParamConfig& c);

struct OffloadOptimizerConfig {
  OffloadDevice device = OffloadDevice::kCpu;
  std::string nvme_path = "/local_nvme";
  bool pin_memory = false;
  double ratio = 1.0;
  int64_t buffer_count = 4;
  bool fast_init = false;
  bool pipeline_read = false;
  bool pipeline_write = false;
  bool super_offload = false;
  double cpuadam_cores_perc = 0.8;
};
void fields(Visitor& v, OffloadOptimizerConfig& c);

struct LocoConfig {
  double err_beta = 0.8;
  int64_t reset_steps = 1024;
};
void fields(Visitor& v, LocoConfig& c);

struct LeafModuleConfig {
  std::vector<std::string> classes = {
      "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock",
      "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
      "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock"};
  std::vector<std::string> names;
  std::vector<std::string> name_suffixes;
};
void fields(Visitor& v, LeafModuleConfig& c);

struct ZenflowConfig {
  double topk_ratio = 0.1;
  ZenflowStrategy select_strategy = ZenflowStrategy::kAuto;
  std::optional<int64_t> select_interval;
  std::optional<int64_t> update_interval;
  bool overlap_step = false;
  bool offload = false;
  double auto_ratio = 0.99;
  int64_t full_warm_up_rounds = 0;
  double pt_reserved_cores_perc = 0.5;
};
void fields(Visitor& v, ZenflowConfig& c);

struct ZeroConfig {
  int64_t stage = 0;
  bool allgather_partitions = true;
  int64_t allgather_bucket_size = 500000000;
  bool overlap_comm = false;
  bool reduce_scatter = true;
  int64_t reduce_bucket_size = 500000000;
  bool contiguous_gradients = true;
  bool load_from_fp32_weights = true;
  bool grad_hooks = true;
  bool round_robin_gradients = false;
  std::optional<OffloadParamConfig> offload_param;
  std::optional<OffloadOptimizerConfig> offload_optimizer;
  int64_t stage3_max_live_parameters = 1000000000;
  int64_t stage3_max_reuse_distance = 1000000000;
  int64_t stage3_prefetch_bucket_size = 500000000;
  int64_t stage3_param_persistence_threshold = 100000;
  bool stage3_gather_16bit_weights_on_model_save = false;
  int64_t stage3_module_granularity_threshold = 0;
  int64_t stage3_model_persistence_threshold = 9223372036854775807;
  bool stage3_use_all_reduce_for_fetch_params = false;
  bool stage3_allgather_sequential = false;
  int64_t sub_group_size = 1000000000;
  bool elastic_checkpoint = false;
  bool ignore_unused_parameters = true;
  int64_t zero_hpz_partition_size = 1;
  bool zero_quantized_weights = false;
  bool zero_quantized_gradients = false;
  bool log_trace_cache_warnings = false;
  bool legacy_stage1 = false;
  bool use_multi_rank_bucket_allreduce = true;
  bool zero_quantized_nontrainable_weights = false;
  std::optional<LocoConfig> zeropp_loco_param;
  int64_t mics_shard_size = -1;
  bool mics_hierarchical_params_gather = false;
  bool memory_efficient_linear = true;
  bool pipeline_loading_checkpoint = false;
  bool override_module_apply = true;
  bool enable_sanity_checks = false;
  bool save_muon_momentum_buffer_in_memory = false;
  LeafModuleConfig leaf_module;
  std::optional<ZenflowConfig> zenflow;
};
void fields(Visitor& v, ZeroConfig& c);

struct AioConfig {
  int64_t block_size = 1048576;
  int64_t queue_depth = 8;
  int64_t thread_count = 1;
  bool single_submit = false;
  bool overlap_events = true;
  bool use_gds = false;
};
void fields(Visitor& v, AioConfig& c);

}  // namespace ds
