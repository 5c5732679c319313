// OLMo 3 (Allen Institute for AI, 2025) as Hugging Face's Olmo3ForCausalLM computes it: OLMo 2 with
// a window of keys in three layers of four, whose rotary positions are not scaled.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

class Value;

struct Olmo3Config {
  int64_t num_hidden_layers = 32;
  int64_t num_attention_heads = 32;
  std::optional<int64_t> num_key_value_heads = {};  // num_attention_heads
  int64_t hidden_size = 4096;
  int64_t intermediate_size = 11008;
  int64_t max_position_embeddings = 2048;
  int64_t vocab_size = 50304;
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-5;
  double rope_theta = 500000.0;
  std::optional<RopeScaling> rope_scaling = {};  // of layers without a window
  int64_t sliding_window = 4096;
  LayerTypes layer_types = {};
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
};
void fields(Visitor& v, Olmo3Config& c);

template <>
struct Family<Olmo3Config> : LlamaLike<Olmo3Config> {
  static constexpr std::string_view kName = "olmo3";
  static constexpr HfClasses kClasses{.model = "Olmo3ForCausalLM",
                                      .body = "Olmo3Model",
                                      .block = "Olmo3DecoderLayer",
                                      .attention = "Olmo3Attention",
                                      .mlp = "Olmo3MLP",
                                      .norm = "Olmo3RMSNorm"};
  static TransformerSpec transformer(const Olmo3Config& c);
  static void read_rest(const HfObject& object, Olmo3Config& c);
  // transformers 5 takes a flat "rope_theta" for layers without a window alone.
  static void write_rest(Value& object, const Olmo3Config& c);
};

}  // namespace ds
