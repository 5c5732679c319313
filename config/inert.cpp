#include "config/inert.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace ds {

namespace {

class Inert {
 public:
  Inert(const Config& config, const Origins& origins, Problems& problems)
      : c_(config), origins_(origins), problems_(problems) {}

  void zero();
  void offload();
  void precision();
  void reduction();
  void switches();
  void compatibility();

 private:
  void note(std::string_view path, std::string_view why) {
    const auto given = origins_.find(path);
    if (given == origins_.end()) return;
    problems_.note(std::string(path), given->second, fmt::format("has no effect {}", why));
  }
  void notes(std::string_view section, std::initializer_list<std::string_view> keys,
             std::string_view why) {
    for (const std::string_view key : keys) note(fmt::format("{}.{}", section, key), why);
  }
  // Every key given directly in `section`, except `but`.
  void all_in(std::string_view section, std::string_view but, std::string_view why) {
    const std::string prefix = fmt::format("{}.", section);
    for (auto at = origins_.lower_bound(prefix); at != origins_.end(); ++at) {
      const std::string_view path = at->first;
      if (!path.starts_with(prefix)) break;
      const std::string_view key = path.substr(prefix.size());
      if (key != but && key.find('.') == std::string_view::npos) note(path, why);
    }
  }

  const Config& c_;
  const Origins& origins_;
  Problems& problems_;
};

void Inert::zero() {
  const int64_t stage = c_.zero_optimization.stage;
  const std::string why = fmt::format("at ZeRO stage {}", stage);
  constexpr std::string_view kSection = "zero_optimization";
  if (stage == 0) return all_in(kSection, "stage", why);
  if (stage != 3) {
    notes(kSection,
          {"stage3_max_live_parameters",
           "stage3_max_reuse_distance",
           "stage3_prefetch_bucket_size",
           "stage3_param_persistence_threshold",
           "stage3_gather_16bit_weights_on_model_save",
           "stage3_module_granularity_threshold",
           "stage3_model_persistence_threshold",
           "stage3_use_all_reduce_for_fetch_params",
           "stage3_allgather_sequential",
           "sub_group_size",
           "zero_hpz_partition_size",
           "zero_quantized_weights",
           "zero_quantized_gradients",
           "zero_quantized_nontrainable_weights",
           "log_trace_cache_warnings",
           "mics_shard_size",
           "mics_hierarchical_params_gather",
           "memory_efficient_linear",
           "pipeline_loading_checkpoint",
           "override_module_apply"},
          why);
  } else {
    notes(kSection, {"allgather_partitions", "allgather_bucket_size", "round_robin_gradients"},
          why);
  }
  if (stage != 1) note("zero_optimization.grad_hooks", why);
  if (stage != 2) note("zero_optimization.ignore_unused_parameters", why);
}

void Inert::offload() {
  const auto& param = c_.zero_optimization.offload_param;
  const auto& optimizer = c_.zero_optimization.offload_optimizer;
  const bool nvme = (param && param->device == OffloadDevice::kNvme) ||
                    (optimizer && optimizer->device == OffloadDevice::kNvme);
  if (param && param->device != OffloadDevice::kNvme) {
    notes("zero_optimization.offload_param",
          {"nvme_path", "buffer_count", "buffer_size", "max_in_cpu"}, "unless device is nvme");
  }
  if (optimizer && optimizer->device != OffloadDevice::kNvme) {
    notes("zero_optimization.offload_optimizer",
          {"nvme_path", "buffer_count", "pipeline_read", "pipeline_write"},
          "unless device is nvme");
  }
  if (!nvme) all_in("aio", "", "unless something is offloaded to nvme");
}

void Inert::precision() {
  if (!c_.fp16.enabled) all_in("fp16", "enabled", "while fp16.enabled is false");
  if (!c_.bf16.enabled) all_in("bf16", "enabled", "while bf16.enabled is false");
  if (c_.fp16.enabled && c_.fp16.loss_scale != 0.0) {
    notes("fp16",
          {"initial_scale_power", "loss_scale_window", "hysteresis", "consecutive_hysteresis",
           "min_loss_scale"},
          "with a static loss scale");
  }
}

void Inert::reduction() {
  if (c_.prescale_gradients) note("gradient_predivide_factor", "with prescale_gradients");
  if (!c_.activation_checkpointing.partition_activations) {
    note("activation_checkpointing.cpu_checkpointing", "without partition_activations");
  }
  if (c_.data.validation.empty() && c_.data.validation_fraction == 0) {
    notes("train", {"eval_every", "eval_batches"}, "without validation data");
  }
}

void Inert::switches() {
  const auto off = [&](bool enabled, std::string_view section) {
    if (!enabled) all_in(section, "enabled", fmt::format("while {}.enabled is false", section));
  };
  off(c_.amp.enabled, "amp");
  off(c_.torch_autocast.enabled, "torch_autocast");
  off(c_.tensorboard.enabled, "tensorboard");
  off(c_.wandb.enabled, "wandb");
  off(c_.comet.enabled, "comet");
  off(c_.csv_monitor.enabled, "csv_monitor");
  off(c_.flops_profiler.enabled, "flops_profiler");
  off(c_.comms_logger.enabled, "comms_logger");
  off(c_.autotuning.enabled, "autotuning");
  off(c_.elasticity.enabled, "elasticity");
  off(c_.curriculum_learning.enabled, "curriculum_learning");
  off(c_.progressive_layer_drop.enabled, "progressive_layer_drop");
  off(c_.eigenvalue.enabled, "eigenvalue");
  off(c_.expert_parallel.enabled, "expert_parallel");
  off(c_.hybrid_engine.enabled, "hybrid_engine");
  off(c_.nebula.enabled, "nebula");
  off(c_.data_efficiency.data_routing.random_ltd.enabled,
      "data_efficiency.data_routing.random_ltd");
  off(c_.data_efficiency.data_sampling.curriculum_learning.enabled,
      "data_efficiency.data_sampling.curriculum_learning");
}

// Keys of the PyTorch engine that name nothing in this one.
void Inert::compatibility() {
  constexpr std::string_view kWhy = "here; it is accepted for compatibility";
  for (const std::string_view path :
       {"zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "disable_allgather",
        "graph_harvesting", "pipeline.stages", "pipeline.partition", "pipeline.seed_layers",
        "pipeline.use_reentrant", "optimizer.legacy_fusion", "optimizer.params.torch_adam",
        "optimizer.params.set_grad_none", "optimizer.params.cuda_aware",
        "zero_optimization.leaf_module", "zero_optimization.memory_efficient_linear",
        "zero_optimization.override_module_apply"}) {
    note(path, kWhy);
  }
}

}  // namespace

void note_inert_keys(const Config& config, const Origins& origins, Problems& problems) {
  Inert inert(config, origins, problems);
  inert.zero();
  inert.offload();
  inert.precision();
  inert.reduction();
  inert.switches();
  inert.compatibility();
}

}  // namespace ds
