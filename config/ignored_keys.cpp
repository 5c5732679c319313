#include "config/ignored_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ds {

namespace {

struct IgnoredKey {
  std::string_view section;  // with [] for the elements of a list
  std::string_view key;
  std::string_view why;
};

constexpr std::string_view kLauncher = "the launcher chooses devices and ranks";
constexpr std::string_view kInference = "it belongs to DeepSpeed's inference engine";
constexpr std::string_view kOlder = "it is of an older release";
constexpr std::string_view kTorch = "it chooses how PyTorch computes the same";
constexpr std::string_view kLayers = "it describes a PyTorch model to DeepSpeed";

constexpr auto kIgnored = std::to_array<IgnoredKey>({
    {"", "cuda_visible_devices", kLauncher},
    {"", "local_rank", kLauncher},
    {"", "world_size", kLauncher},
    {"", "grandient_accumulation_steps", "a misprint of gradient_accumulation_steps"},
    {"", "initial_scale_power", "a key of fp16"},
    {"", "postscale_gradients", kOlder},
    {"", "allreduce_always_fp32", kOlder},
    {"", "gradient_average", kOlder},
    {"", "replace_with_kernel_inject", kInference},
    {"", "kernel_inject", kInference},
    {"", "enable_cuda_graph", kInference},
    {"", "replace_method", kInference},
    {"", "injection_policy", kInference},
    {"", "injection_policy_tuple", kInference},
    {"", "return_tuple", kInference},
    {"", "return_single_tuple", kInference},
    {"", "set_empty_params", kInference},
    {"", "transposed_mode", kInference},
    {"", "triangular_masking", kInference},
    {"", "keep_module_on_host", kInference},
    {"", "use_triton", kInference},
    {"", "triton_autotune", kInference},
    {"", "max_out_tokens", kInference},
    {"", "max_tokens", kInference},
    {"", "min_out_tokens", kInference},
    {"", "min_tokens", kInference},
    {"", "training_mp_size", kInference},
    {"", "mp_size", kInference},
    {"", "mpu", kInference},
    {"", "moe", kInference},
    {"", "moe_experts", kInference},
    {"", "moe_type", kInference},
    {"", "ep_size", kInference},
    {"", "quant", kInference},
    {"", "dtype", kInference},
    {"", "base_dir", kInference},
    {"", "checkpoint_config", kInference},
    {"", "save_mp_checkpoint_path", kInference},
    {"eigenvalue", "model_name", kLayers},
    {"flops_profiler", "step", "the step that is profiled is profile_step"},
    {"torch_autocast", "enable", "the switch is enabled"},
    {"optimizer.params", "foreach", kTorch},
    {"optimizer.params", "fused", kTorch},
    {"optimizer.params", "capturable", kTorch},
    {"optimizer.params", "differentiable", kTorch},
    {"optimizer.params", "adamw_mode", "the switch is adam_w_mode"},
    {"zero_optimization.zenflow", "steps_per_epoch", "it is counted here"},
    {"tensor_parallel", "keep_module_on_host", kLayers},
    {"tensor_parallel", "replace_with_kernel_inject", kInference},
    {"tensor_parallel", "kernel_inject", kInference},
    {"tensor_parallel", "injection_policy_tuple", kLayers},
    {"tensor_parallel.tp", "mpu", kLayers},
    {"tensor_parallel.tp", "tp_group", kLayers},
    {"tensor_parallel.partition_config", "tp_size", "tensor_parallel.autotp_size says it"},
    {"tensor_parallel.partition_config", "embedding_partition_dim", kLayers},
    {"tensor_parallel.partition_config", "lm_head_patterns", kLayers},
    {"tensor_parallel.partition_config", "strict_mode", kLayers},
    {"tensor_parallel.partition_config.layer_specs[]", "gather_output", kLayers},
    {"tensor_parallel.partition_config.layer_specs[]", "grad_allreduce", kLayers},
    {"expert_parallel", "validate_folding_routing", kLayers},
    {"expert_parallel", "disable_triton_grouped_mm", kTorch},
    {"expert_parallel", "route_norm", kLayers},
    {"expert_parallel", "route_scale", kLayers},
    {"expert_parallel", "combine_impl", kTorch},
    {"expert_parallel", "num_expert_groups", kLayers},
    {"expert_parallel", "num_limited_groups", kLayers},
    {"expert_parallel", "routed_scaling_factor", kLayers},
    {"expert_parallel", "expert_w1", kLayers},
    {"expert_parallel", "expert_w2", kLayers},
    {"expert_parallel", "expert_w3", kLayers},
    {"expert_parallel", "num_experts_attr", kLayers},
    {"expert_parallel", "top_k_attr", kLayers},
    {"expert_parallel", "has_shared_experts", kLayers},
    {"expert_parallel", "shared_experts_pattern", kLayers},
    {"expert_parallel", "shared_experts_gate_pattern", kLayers},
});

// "layer_specs[3]" is any "layer_specs[]".
bool same_section(std::string_view pattern, std::string_view section) {
  if (!pattern.ends_with("[]")) return pattern == section;
  return section.ends_with(']') && section.substr(0, section.rfind('[')) == pattern.substr(0, pattern.size() - 2);
}

bool is_comment(std::string_view key) {
  constexpr std::array<std::string_view, 7> kWords = {"comment", "comments", "description", "doc",
                                                      "note",    "notes",    "readme"};
  return key.starts_with('_') || key.starts_with('#') || key.starts_with("//") || key.starts_with('$') ||
         std::ranges::find(kWords, key) != kWords.end();
}

}  // namespace

std::optional<std::string> why_ignored(std::string_view section, std::string_view key) {
  for (const IgnoredKey& known : kIgnored) {
    if (known.key == key && same_section(known.section, section)) return std::string(known.why);
  }
  if (is_comment(key)) return "a comment";
  return std::nullopt;
}

}  // namespace ds
