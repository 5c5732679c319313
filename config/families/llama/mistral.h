// Mistral 7B and its like (Jiang et al., arXiv 2310.06825) as Hugging Face's MistralForCausalLM
// computes them: Llama whose queries see a window of keys.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct MistralConfig {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 8;  // null: num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim = {};  // hidden_size / num_attention_heads
  int64_t intermediate_size = 14336;
  int64_t max_position_embeddings = 131072;
  int64_t vocab_size = 32000;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  std::optional<int64_t> sliding_window = 4096;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, MistralConfig& c);

template <>
struct Family<MistralConfig> : LlamaLike<MistralConfig> {
  static constexpr std::string_view kName = "mistral";
  static constexpr HfClasses kClasses{.model = "MistralForCausalLM",
                                      .body = "MistralModel",
                                      .block = "MistralDecoderLayer",
                                      .attention = "MistralAttention",
                                      .mlp = "MistralMLP",
                                      .norm = "MistralRMSNorm"};
  static TransformerSpec transformer(const MistralConfig& c);
  static void read_rest(const HfObject& object, MistralConfig& c);
};

}  // namespace ds
