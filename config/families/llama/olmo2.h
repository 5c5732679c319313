// OLMo 2 (OLMo Team, arXiv 2501.00656) as Hugging Face's Olmo2ForCausalLM computes it: a Llama with
// norms behind attention and the MLP alone, and norms of queries and keys over all heads together.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Olmo2Config {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 50304;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Olmo2Config& c);

template <>
struct Family<Olmo2Config> : LlamaLike<Olmo2Config> {
  static constexpr std::string_view kName = "olmo2";
  static constexpr HfClasses kClasses{.model = "Olmo2ForCausalLM",
                                      .body = "Olmo2Model",
                                      .block = "Olmo2DecoderLayer",
                                      .attention = "Olmo2Attention",
                                      .mlp = "Olmo2MLP",
                                      .norm = "Olmo2RMSNorm"};
  static TransformerSpec transformer(const Olmo2Config& c);
  static void read_rest(const HfObject& object, Olmo2Config& c);
};

}  // namespace ds
