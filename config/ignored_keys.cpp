#include "config/ignored_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

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

}  // namespace

std::optional<std::string> why_ignored(std::string_view section, std::string_view key) {
  for (const IgnoredKeys& known : kIgnored) {
    if (has_word(known.keys, key) && same_section(known.section, section))
      return std::string(known.why);
  }
  if (is_comment(key)) return "a comment";
  return std::nullopt;
}

}  // namespace ds
