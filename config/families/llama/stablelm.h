// StableLM and StableLM 2 (Bellagente et al., arXiv 2402.17834) as Hugging Face's
// StableLmForCausalLM computes them: Llama with layer norms, and heads of which a share turns.
// Heads may have norms of their own, and the MLP may read what attention reads.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct StableLmConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  int64_t num_key_value_heads = 32;
  int64_t hidden_size = 2560;
  int64_t intermediate_size = 6912;
  int64_t max_position_embeddings = 4096;
  int64_t vocab_size = 50304;
  std::string hidden_act = "silu";
  double layer_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  double partial_rotary_factor = 0.25;
  std::optional<RopeScaling> rope_scaling = {};
  bool use_qkv_bias = false;
  bool qk_layernorm = false;
  bool use_parallel_residual = false;
  double hidden_dropout = 0.0;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, StableLmConfig& c);

template <>
struct Family<StableLmConfig> : LlamaLike<StableLmConfig> {
  static constexpr std::string_view kName = "stablelm";
  static constexpr HfClasses kClasses{.model = "StableLmForCausalLM",
                                      .body = "StableLmModel",
                                      .block = "StableLmDecoderLayer",
                                      .attention = "StableLmAttention",
                                      .mlp = "StableLmMLP",
                                      .norm = "LayerNorm"};
  static TransformerSpec transformer(const StableLmConfig& c);
  static void read_rest(const HfObject& object, StableLmConfig& c);
};

}  // namespace ds
