// Qwen2 and Qwen2.5 (Qwen Team, arXiv 2407.10671) as Hugging Face's Qwen2ForCausalLM computes them:
// Llama with biases on queries, keys and values.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Qwen2Config {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 32;  // null: num_attention_heads
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 22016;
  int64_t max_position_embeddings = 32768;
  int64_t vocab_size = 151936;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  bool use_sliding_window = false;
  std::optional<int64_t> sliding_window = 4096;
  int64_t max_window_layers = 28;  // the first layers, which see all there is
  LayerTypes layer_types = {};
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Qwen2Config& c);

template <>
struct Family<Qwen2Config> : LlamaLike<Qwen2Config> {
  static constexpr std::string_view kName = "qwen2";
  static constexpr HfClasses kClasses{.model = "Qwen2ForCausalLM",
                                      .body = "Qwen2Model",
                                      .block = "Qwen2DecoderLayer",
                                      .attention = "Qwen2Attention",
                                      .mlp = "Qwen2MLP",
                                      .norm = "Qwen2RMSNorm"};
  static TransformerSpec transformer(const Qwen2Config& c);
  static void read_rest(const HfObject& object, Qwen2Config& c);
};

}  // namespace ds
