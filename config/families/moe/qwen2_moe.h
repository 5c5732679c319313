// Qwen1.5-MoE and Qwen2-MoE (Qwen Team, arXiv 2407.10671) as Hugging Face's Qwen2MoeForCausalLM
// computes them: Qwen2 with experts in some layers, and one beside them that all tokens go through.
#pragma once

#include <optional>
#include <vector>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Qwen2MoeConfig {
  int64_t num_hidden_layers = 24;
  int64_t num_attention_heads = 16;
  std::optional<int64_t> num_key_value_heads = 16;  // null: num_attention_heads
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 5632;  // of layers without experts
  int64_t max_position_embeddings = 32768;
  int64_t vocab_size = 151936;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool qkv_bias = true;
  int64_t num_experts = 60;
  int64_t num_experts_per_tok = 4;
  int64_t moe_intermediate_size = 1408;
  int64_t shared_expert_intermediate_size = 5632;
  bool norm_topk_prob = false;
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers = {};
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Qwen2MoeConfig& c);

template <>
struct Family<Qwen2MoeConfig> : LlamaLike<Qwen2MoeConfig> {
  static constexpr std::string_view kName = "qwen2_moe";
  static constexpr HfClasses kClasses{.model = "Qwen2MoeForCausalLM",
                                      .body = "Qwen2MoeModel",
                                      .block = "Qwen2MoeDecoderLayer",
                                      .attention = "Qwen2MoeAttention",
                                      .mlp = "Qwen2MoeSparseMoeBlock",
                                      .norm = "Qwen2MoeRMSNorm"};
  static std::span<const HfAlias> aliases();
  static std::vector<SizeConflict> size_conflicts(const Qwen2MoeConfig& c);
  static TransformerSpec transformer(const Qwen2MoeConfig& c);
  static void read_rest(const HfObject& object, Qwen2MoeConfig& c);
};

}  // namespace ds
