// Qwen3-MoE (Qwen Team, arXiv 2505.09388) as Hugging Face's Qwen3MoeForCausalLM computes it: Qwen3
// with many small experts in some layers.
#pragma once

#include <optional>
#include <vector>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Qwen3MoeConfig {
  int64_t num_hidden_layers = 24;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 4;  // null: num_attention_heads
  int64_t hidden_size = 2048;
  std::optional<int64_t> head_dim = {};  // hidden_size / num_attention_heads
  int64_t intermediate_size = 6144;      // of layers without experts
  int64_t max_position_embeddings = 32768;
  int64_t vocab_size = 151936;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool use_sliding_window = false;
  std::optional<int64_t> sliding_window = 4096;
  bool attention_bias = false;
  int64_t num_experts = 128;
  int64_t num_experts_per_tok = 8;
  int64_t moe_intermediate_size = 768;
  bool norm_topk_prob = false;
  int64_t decoder_sparse_step = 1;
  std::vector<int64_t> mlp_only_layers = {};
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Qwen3MoeConfig& c);

template <>
struct Family<Qwen3MoeConfig> : LlamaLike<Qwen3MoeConfig> {
  static constexpr std::string_view kName = "qwen3_moe";
  static constexpr HfClasses kClasses{.model = "Qwen3MoeForCausalLM",
                                      .body = "Qwen3MoeModel",
                                      .block = "Qwen3MoeDecoderLayer",
                                      .attention = "Qwen3MoeAttention",
                                      .mlp = "Qwen3MoeSparseMoeBlock",
                                      .norm = "Qwen3MoeRMSNorm"};
  static std::span<const HfAlias> aliases();
  static std::vector<SizeConflict> size_conflicts(const Qwen3MoeConfig& c);
  static TransformerSpec transformer(const Qwen3MoeConfig& c);
  static void read_rest(const HfObject& object, Qwen3MoeConfig& c);
};

}  // namespace ds
