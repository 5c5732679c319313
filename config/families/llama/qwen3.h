// Qwen3 (Qwen Team, arXiv 2505.09388) as Hugging Face's Qwen3ForCausalLM computes it: Llama whose
// queries and keys are normed head by head before they turn, and whose heads have a width of their
// own.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Qwen3Config {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = 32;  // null: num_attention_heads
  int64_t hidden_size = 4096;
  std::optional<int64_t> head_dim = 128;  // null: hidden_size / num_attention_heads
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
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Qwen3Config& c);

template <>
struct Family<Qwen3Config> : LlamaLike<Qwen3Config> {
  static constexpr std::string_view kName = "qwen3";
  static constexpr HfClasses kClasses{.model = "Qwen3ForCausalLM",
                                      .body = "Qwen3Model",
                                      .block = "Qwen3DecoderLayer",
                                      .attention = "Qwen3Attention",
                                      .mlp = "Qwen3MLP",
                                      .norm = "Qwen3RMSNorm"};
  static TransformerSpec transformer(const Qwen3Config& c);
  static void read_rest(const HfObject& object, Qwen3Config& c);
};

}  // namespace ds
