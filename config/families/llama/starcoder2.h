// StarCoder2 (Lozhkov et al., arXiv 2402.19173) as Hugging Face's Starcoder2ForCausalLM computes
// it: layer norms and biases, an MLP without a gate, rotary positions, a window of keys.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Starcoder2Config {
  int64_t num_hidden_layers = 30;
  int64_t num_attention_heads = 24;
  int64_t num_key_value_heads = 2;
  int64_t hidden_size = 3072;
  int64_t intermediate_size = 12288;
  int64_t max_position_embeddings = 4096;
  int64_t vocab_size = 49152;
  std::string hidden_act = "gelu_pytorch_tanh";
  double norm_epsilon = 1e-5;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  std::optional<int64_t> sliding_window = {};
  bool use_bias = true;
  double residual_dropout = 0.0;
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double initializer_range = 0.018042;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Starcoder2Config& c);

template <>
struct Family<Starcoder2Config> : LlamaLike<Starcoder2Config> {
  static constexpr std::string_view kName = "starcoder2";
  static constexpr HfClasses kClasses{.model = "Starcoder2ForCausalLM",
                                      .body = "Starcoder2Model",
                                      .block = "Starcoder2DecoderLayer",
                                      .attention = "Starcoder2Attention",
                                      .mlp = "Starcoder2MLP",
                                      .norm = "LayerNorm"};
  static TransformerSpec transformer(const Starcoder2Config& c);
  static void read_rest(const HfObject& object, Starcoder2Config& c);
};

}  // namespace ds
