// Llama (Touvron et al., arXiv 2302.13971; grouped-query heads as in Llama 2) as Hugging Face's
// LlamaForCausalLM computes it: RMS norm, rotary positions in the half-split layout, SwiGLU.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct LlamaConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim = {};  // hidden_size / num_attention_heads
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool attention_bias = false;
  bool mlp_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, LlamaConfig& c);

template <>
struct Family<LlamaConfig> : LlamaLike<LlamaConfig> {
  static constexpr std::string_view kName = "llama";
  static constexpr HfClasses kClasses{.model = "LlamaForCausalLM",
                                      .body = "LlamaModel",
                                      .block = "LlamaDecoderLayer",
                                      .attention = "LlamaAttention",
                                      .mlp = "LlamaMLP",
                                      .norm = "LlamaRMSNorm"};
  static TransformerSpec transformer(const LlamaConfig& c);
  static void read_rest(const HfObject& object, LlamaConfig& c);
};

}  // namespace ds
