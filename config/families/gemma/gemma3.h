// Gemma 3 (Gemma Team, arXiv 2503.19786) without images, as Hugging Face's Gemma3ForCausalLM
// computes it: Gemma 2 whose queries and keys are normed head by head, whose layers have a window
// but for every sixth, and turn by other frequencies where they have one.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Gemma3Config {
  int64_t num_hidden_layers = 26;
  int64_t num_attention_heads = 8;
  int64_t num_key_value_heads = 4;
  int64_t hidden_size = 2304;
  int64_t head_dim = 256;
  int64_t intermediate_size = 9216;
  int64_t max_position_embeddings = 131072;
  int64_t vocab_size = 262208;
  std::string hidden_activation = "gelu_pytorch_tanh";
  double rms_norm_eps = 1e-6;
  double rope_theta = 1000000.0;
  std::optional<RopeScaling> rope_scaling = {};
  double rope_local_base_freq = 10000.0;  // rope_theta of layers with a window
  int64_t sliding_window = 4096;
  int64_t sliding_window_pattern = 6;
  LayerTypes layer_types = {};
  int64_t query_pre_attn_scalar = 256;
  std::optional<double> final_logit_softcapping = {};
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Gemma3Config& c);

template <>
struct Family<Gemma3Config> : LlamaLike<Gemma3Config> {
  static constexpr std::string_view kName = "gemma3_text";
  static constexpr HfClasses kClasses{.model = "Gemma3ForCausalLM",
                                      .body = "Gemma3TextModel",
                                      .block = "Gemma3DecoderLayer",
                                      .attention = "Gemma3Attention",
                                      .mlp = "Gemma3MLP",
                                      .norm = "Gemma3RMSNorm"};
  static std::vector<SizeConflict> size_conflicts(const Gemma3Config& c);
  static TransformerSpec transformer(const Gemma3Config& c);
  static void read_rest(const HfObject& object, Gemma3Config& c);
};

}  // namespace ds
