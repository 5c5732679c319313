// Gemma (Gemma Team, arXiv 2403.08295) as Hugging Face's GemmaForCausalLM computes it: Llama with a
// GELU behind its gate, norms that multiply by 1 + w, embeddings times sqrt(hidden_size), and heads
// that have a width of their own.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct GemmaConfig {
  int64_t num_hidden_layers = 28;
  int64_t num_attention_heads = 16;
  int64_t num_key_value_heads = 16;
  int64_t hidden_size = 3072;
  int64_t head_dim = 256;
  int64_t intermediate_size = 24576;
  int64_t max_position_embeddings = 8192;
  int64_t vocab_size = 256000;
  std::string hidden_act = "gelu_pytorch_tanh";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, GemmaConfig& c);

template <>
struct Family<GemmaConfig> : LlamaLike<GemmaConfig> {
  static constexpr std::string_view kName = "gemma";
  static constexpr HfClasses kClasses{.model = "GemmaForCausalLM",
                                      .body = "GemmaModel",
                                      .block = "GemmaDecoderLayer",
                                      .attention = "GemmaAttention",
                                      .mlp = "GemmaMLP",
                                      .norm = "GemmaRMSNorm"};
  static TransformerSpec transformer(const GemmaConfig& c);
  static void read_rest(const HfObject& object, GemmaConfig& c);
};

}  // namespace ds
