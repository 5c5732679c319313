#include "config/inert.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string_view>

namespace ds {

namespace {

struct Switch {
  std::string_view section;
  bool on;
};

// Sections that are read but have no effect while their `enabled` is false.
std::vector<Switch> switches_of(const Config& c) {
  const DataEfficiencyConfig& data = c.data_efficiency;
  return {
      {"amp", c.amp.enabled},
      {"torch_autocast", c.torch_autocast.enabled},
      {"tensorboard", c.tensorboard.enabled},
      {"wandb", c.wandb.enabled},
      {"comet", c.comet.enabled},
      {"csv_monitor", c.csv_monitor.enabled},
      {"flops_profiler", c.flops_profiler.enabled},
      {"comms_logger", c.comms_logger.enabled},
      {"autotuning", c.autotuning.enabled},
      {"elasticity", c.elasticity.enabled},
      {"curriculum_learning", c.curriculum_learning.enabled},
      {"progressive_layer_drop", c.progressive_layer_drop.enabled},
      {"eigenvalue", c.eigenvalue.enabled},
      {"expert_parallel", c.expert_parallel.enabled},
      {"hybrid_engine", c.hybrid_engine.enabled},
      {"nebula", c.nebula.enabled},
      {"data_efficiency.data_routing.random_ltd", data.data_routing.random_ltd.enabled},
      {"data_efficiency.data_sampling.curriculum_learning",
       data.data_sampling.curriculum_learning.enabled},
  };
}

// Those that have their switch elsewhere: only their errors are of interest, they say enough
// themselves.
std::vector<Switch> other_switches_of(const Config& c) {
  std::vector<Switch> out{
      {"fp16", c.fp16.enabled},
      {"bf16", c.bf16.enabled},
      {"zero_optimization", c.zero_optimization.stage > 0},
      {"data_efficiency.data_sampling.dynamic_batching",
       c.data_efficiency.data_sampling.dynamic_batching.enabled},
  };
  for (const CompressionSwitch& technique : switches(c.compression_training)) {
    out.push_back({technique.section, technique.on});
  }
  return out;
}

// The switch itself must be right, and a name that is not known may have been meant for it.
bool may_switch(const Problem& problem) {
  return problem.path.ends_with(".enabled") || problem.path == "zero_optimization.stage" ||
         problem.path.find('.') == std::string::npos || problem.message.starts_with("unknown key");
}

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
    if (c_.zero_optimization.stage3_gather_16bit_weights_on_model_save && !gathered_dtype(c_)) {
      note("zero_optimization.stage3_gather_16bit_weights_on_model_save", "without fp16 or bf16");
    }
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
  for (const Switch& part : switches_of(c_)) {
    if (!part.on)
      all_in(part.section, "enabled", fmt::format("while {}.enabled is false", part.section));
  }
}

// Keys of the PyTorch engine that name nothing in this one.
void Inert::compatibility() {
  constexpr std::string_view kWhy = "here; it is accepted for compatibility";
  for (const std::string_view path :
       {"zero_allow_untested_optimizer", "zero_force_ds_cpu_optimizer", "disable_allgather",
        "graph_harvesting", "pipeline.stages", "pipeline.partition", "pipeline.seed_layers",
        "pipeline.use_reentrant", "optimizer.legacy_fusion", "optimizer.params.set_grad_none",
        "optimizer.params.cuda_aware", "zero_optimization.leaf_module",
        "zero_optimization.memory_efficient_linear", "zero_optimization.override_module_apply",
        "activation_checkpointing.number_checkpoints",
        "activation_checkpointing.synchronize_checkpoint_boundary",
        "activation_checkpointing.profile"}) {
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

void soften_what_is_off(const Config& config, Problems& problems) {
  for (const auto& parts : {switches_of(config), other_switches_of(config)}) {
    for (const Switch& part : parts) {
      if (part.on) continue;
      problems.soften(
          [&](const Problem& problem) {
            return is_within(problem.path, part.section) && !may_switch(problem);
          },
          fmt::format("while {} is off", part.section));
    }
  }
}

}  // namespace ds
