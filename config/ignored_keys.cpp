#include "config/ignored_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "config/reader/problem.h"

namespace ds {

namespace {

struct IgnoredKeys {
  std::string_view section;  // with [] for the elements of a list
  std::string_view keys;     // with blanks between them
  std::string_view why;
};

constexpr std::string_view kLauncher = "the launcher chooses devices and ranks";
constexpr std::string_view kInference = "it belongs to DeepSpeed's inference engine";
constexpr std::string_view kOlder = "it is of an older release";
constexpr std::string_view kTorch = "it chooses how PyTorch computes the same";
constexpr std::string_view kLayers = "it describes a PyTorch model to DeepSpeed";

constexpr auto kIgnored = std::to_array<IgnoredKeys>({
    {"", "cuda_visible_devices local_rank world_size", kLauncher},
    {"", "grandient_accumulation_steps", "a misprint of gradient_accumulation_steps"},
    {"", "initial_scale_power", "a key of fp16"},
    {"",
     "zero3_init_flag zero3_save_16bit_model zero_stage offload_optimizer_device "
     "offload_param_device deepspeed_multinode_launcher deepspeed_config_file deepspeed_hostfile "
     "compute_environment distributed_type downcast_bf16 machine_rank main_process_ip "
     "main_process_port main_training_function mixed_precision num_machines num_processes "
     "rdzv_backend same_network use_cpu",
     "a key of accelerate"},
    {"", "postscale_gradients allreduce_always_fp32 gradient_average", kOlder},
    {"",
     "replace_with_kernel_inject kernel_inject enable_cuda_graph replace_method injection_policy "
     "injection_policy_tuple return_tuple return_single_tuple set_empty_params transposed_mode "
     "triangular_masking "
     "keep_module_on_host use_triton triton_autotune max_out_tokens max_tokens min_out_tokens "
     "min_tokens "
     "training_mp_size mp_size mpu moe moe_experts moe_type ep_size quant dtype base_dir "
     "checkpoint_config "
     "save_mp_checkpoint_path",
     kInference},
    {"fp16", "fp16", "GPT-NeoX's switch; DeepSpeed's is enabled"},
    {"bf16", "bf16", "GPT-NeoX's switch; DeepSpeed's is enabled"},
    {"fp16", "type",
     "the section's name is the type, and training in bfloat16 is what the section bf16 turns on"},
    {"fp16", "initial_loss_scale_power", "a slip of old documents for initial_scale_power"},
    {"zero_optimization", "find_unused_parameters", kOlder},
    {"zero_optimization", "stage3_param_persitence_threshold",
     "a misprint of stage3_param_persistence_threshold"},
    {"zero_optimization", "cpu_offload_pin_memory", "a misprint of cpu_offload_use_pin_memory"},
    {"compile", "enabled disable backend kwargs",
     "it is of an older release and turns PyTorch's compiler on or off"},
    {"eigenvalue", "model_name", kLayers},
    {"flops_profiler", "step", "the step that is profiled is profile_step"},
    {"torch_autocast", "enable", "the switch is enabled"},
    {"optimizer.params", "foreach fused capturable differentiable", kTorch},
    {"optimizer.params", "adamw_mode", "the switch is adam_w_mode"},
    {"zero_optimization.zenflow", "steps_per_epoch", "it is counted here"},
    {"tensor_parallel", "keep_module_on_host injection_policy_tuple", kLayers},
    {"tensor_parallel", "replace_with_kernel_inject kernel_inject", kInference},
    {"tensor_parallel.tp", "mpu tp_group", kLayers},
    {"tensor_parallel.partition_config", "tp_size", "tensor_parallel.autotp_size says it"},
    {"tensor_parallel.partition_config", "embedding_partition_dim lm_head_patterns strict_mode",
     kLayers},
    {"tensor_parallel.partition_config.layer_specs[]", "gather_output grad_allreduce", kLayers},
    {"expert_parallel", "disable_triton_grouped_mm combine_impl", kTorch},
    {"expert_parallel",
     "validate_folding_routing route_norm route_scale num_expert_groups num_limited_groups "
     "routed_scaling_factor "
     "expert_w1 expert_w2 expert_w3 num_experts_attr top_k_attr has_shared_experts "
     "shared_experts_pattern "
     "shared_experts_gate_pattern",
     kLayers},
});

bool has_word(std::string_view words, std::string_view word) {
  if (word.empty() || word.find(' ') != std::string_view::npos) return false;
  for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
      return true;
  }
  return false;
}

// "layer_specs[3]" is any "layer_specs[]".
bool same_section(std::string_view pattern, std::string_view section) {
  if (!pattern.ends_with("[]")) return pattern == section;
  return section.ends_with(']') &&
         section.substr(0, section.rfind('[')) == pattern.substr(0, pattern.size() - 2);
}

bool is_comment(std::string_view key) {
  constexpr std::array<std::string_view, 7> kWords = {"comment", "comments", "description", "doc",
                                                      "note",    "notes",    "readme"};
  return key.starts_with('_') || key.starts_with('#') || key.starts_with("//") ||
         key.starts_with('$') || std::ranges::find(kWords, key) != kWords.end();
}

// Sections that every release which has them checks, or hands on to what does, and our own; with
// all that is in them.
constexpr auto kChecked = std::to_array<std::string_view>({"model",
                                                           "data",
                                                           "train",
                                                           "memory",
                                                           "communication",
                                                           "optimizer.params",
                                                           "optimizer.param_groups",
                                                           "optimizer.base_shapes",
                                                           "scheduler.params",
                                                           "zero_optimization.zenflow",
                                                           "zero_optimization.leaf_module",
                                                           "tensor_parallel",
                                                           "expert_parallel",
                                                           "compile",
                                                           "hybrid_engine",
                                                           "wandb",
                                                           "comet",
                                                           "csv_monitor",
                                                           "comms_logger",
                                                           "timers"});

}  // namespace

std::optional<std::string_view> who_reads_past(std::string_view section) {
  const auto is_in = [&](std::string_view other) { return is_within(section, other); };
  if (std::ranges::any_of(kChecked, is_in)) return std::nullopt;
  if (is_in("fp16") || is_in("bf16")) return "DeepSpeed before 0.17.1";
  constexpr auto kOld =
      std::to_array<std::string_view>({"zero_optimization", "zero_optimization.offload_param",
                                       "zero_optimization.offload_optimizer", "tensorboard"});
  if (std::ranges::find(kOld, section) != kOld.end()) return "DeepSpeed before 0.7.0";
  return "DeepSpeed";
}

std::optional<std::string> why_ignored(std::string_view section, std::string_view key) {
  for (const IgnoredKeys& known : kIgnored) {
    if (has_word(known.keys, key) && same_section(known.section, section))
      return std::string(known.why);
  }
  if (is_comment(key)) return "a comment";
  return std::nullopt;
}

}  // namespace ds
