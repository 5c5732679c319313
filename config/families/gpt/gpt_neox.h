// GPT-NeoX and Pythia (Black et al., arXiv 2204.06745; Biderman et al., arXiv 2304.01373) as
// Hugging Face's GPTNeoXForCausalLM computes them: layer norms and biases, an MLP beside attention,
// heads of which a share turns; folders join queries, keys and values head by head.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct GptNeoXConfig {
  int64_t num_hidden_layers = 44;
  int64_t num_attention_heads = 64;
  int64_t hidden_size = 6144;
  int64_t intermediate_size = 24576;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 50432;
  std::string hidden_act = "gelu";
  double layer_norm_eps = 1e-5;
  double rotary_emb_base = 10000.0;
  double rotary_pct = 0.25;
  std::optional<RopeScaling> rope_scaling = {};
  bool use_parallel_residual = true;
  bool attention_bias = true;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, GptNeoXConfig& c);

template <>
struct Family<GptNeoXConfig> : LlamaLike<GptNeoXConfig> {
  static constexpr std::string_view kName = "gpt_neox";
  static constexpr HfClasses kClasses{.model = "GPTNeoXForCausalLM",
                                      .body = "GPTNeoXModel",
                                      .block = "GPTNeoXLayer",
                                      .attention = "GPTNeoXAttention",
                                      .mlp = "GPTNeoXMLP",
                                      .norm = "LayerNorm"};
  static TransformerSpec transformer(const GptNeoXConfig& c);
  static void read_rest(const HfObject& object, GptNeoXConfig& c);
};

}  // namespace ds
