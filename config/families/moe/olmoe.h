// OLMoE (Muennighoff et al., arXiv 2409.02060) as Hugging Face's OlmoeForCausalLM computes it:
// Llama with norms of all queries and of all keys of a token, whose MLPs are many small experts.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct OlmoeConfig {
  int64_t num_hidden_layers = 16;
  int64_t num_attention_heads = 16;
  std::optional<int64_t> num_key_value_heads = {};  // null: num_attention_heads
  int64_t hidden_size = 2048;
  int64_t intermediate_size = 2048;
  int64_t max_position_embeddings = 4096;
  int64_t vocab_size = 50304;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  int64_t num_experts = 64;
  int64_t num_experts_per_tok = 8;
  bool norm_topk_prob = false;
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, OlmoeConfig& c);

template <>
struct Family<OlmoeConfig> : LlamaLike<OlmoeConfig> {
  static constexpr std::string_view kName = "olmoe";
  static constexpr HfClasses kClasses{.model = "OlmoeForCausalLM",
                                      .body = "OlmoeModel",
                                      .block = "OlmoeDecoderLayer",
                                      .attention = "OlmoeAttention",
                                      .mlp = "OlmoeSparseMoeBlock",
                                      .norm = "OlmoeRMSNorm"};
  static std::span<const HfAlias> aliases();
  static std::vector<SizeConflict> size_conflicts(const OlmoeConfig& c);
  static TransformerSpec transformer(const OlmoeConfig& c);
  static void read_rest(const HfObject& object, OlmoeConfig& c);
};

}  // namespace ds
