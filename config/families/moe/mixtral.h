// Mixtral (Jiang et al., arXiv 2401.04088) as Hugging Face's MixtralForCausalLM computes it:
// Mistral whose MLPs are experts, of which each token goes through the best two.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct MixtralConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 8;  // null: num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim = {};  // hidden_size / num_attention_heads
  int64_t intermediate_size = 14336;
  int64_t max_position_embeddings = 131072;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-5;
  double rope_theta = 1e6;
  std::optional<RopeScaling> rope_scaling = {};
  std::optional<int64_t> sliding_window = {};
  int64_t num_local_experts = 8;
  int64_t num_experts_per_tok = 2;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, MixtralConfig& c);

template <>
struct Family<MixtralConfig> : LlamaLike<MixtralConfig> {
  static constexpr std::string_view kName = "mixtral";
  static constexpr HfClasses kClasses{.model = "MixtralForCausalLM",
                                      .body = "MixtralModel",
                                      .block = "MixtralDecoderLayer",
                                      .attention = "MixtralAttention",
                                      .mlp = "MixtralSparseMoeBlock",
                                      .norm = "MixtralRMSNorm"};
  static std::span<const HfAlias> aliases();
  static std::vector<SizeConflict> size_conflicts(const MixtralConfig& c);
  static TransformerSpec transformer(const MixtralConfig& c);
  static void read_rest(const HfObject& object, MixtralConfig& c);
};

}  // namespace ds
