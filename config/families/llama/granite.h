// Granite (IBM Research, 2024) as Hugging Face's GraniteForCausalLM computes it: Llama with factors
// of embeddings, scores, branches and logits, after muP (Yang et al., arXiv 2203.03466).
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct GraniteConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  double embedding_multiplier = 1.0;
  double attention_multiplier = 1.0;
  double residual_multiplier = 1.0;
  double logits_scaling = 1.0;
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, GraniteConfig& c);

template <>
struct Family<GraniteConfig> : LlamaLike<GraniteConfig> {
  static constexpr std::string_view kName = "granite";
  static constexpr HfClasses kClasses{.model = "GraniteForCausalLM",
                                      .body = "GraniteModel",
                                      .block = "GraniteDecoderLayer",
                                      .attention = "GraniteAttention",
                                      .mlp = "GraniteMLP",
                                      .norm = "GraniteRMSNorm"};
  static TransformerSpec transformer(const GraniteConfig& c);
  static void read_rest(const HfObject& object, GraniteConfig& c);
};

}  // namespace ds
