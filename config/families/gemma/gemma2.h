// Gemma 2 (Gemma Team, arXiv 2408.00118) as Hugging Face's Gemma2ForCausalLM computes it: Gemma
// with norms behind attention and the MLP as well as before them, scores and logits that are
// capped, and a window of keys in every other layer, from the first one on.
#pragma once

#include <optional>

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"
#include "config/families/spec/rope_scaling.h"

namespace ds {

struct Gemma2Config {
  int64_t num_hidden_layers = 26;
  int64_t num_attention_heads = 8;
  int64_t num_key_value_heads = 4;
  int64_t hidden_size = 2304;
  int64_t head_dim = 256;
  int64_t intermediate_size = 9216;
  int64_t max_position_embeddings = 8192;
  int64_t vocab_size = 256000;
  std::string hidden_activation = "gelu_pytorch_tanh";
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling = {};
  int64_t sliding_window = 4096;
  LayerTypes layer_types = {};
  int64_t query_pre_attn_scalar = 256;
  std::optional<double> attn_logit_softcapping = 50.0;
  std::optional<double> final_logit_softcapping = 30.0;
  bool attention_bias = false;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
  bool tie_word_embeddings = true;
};
void fields(Visitor& v, Gemma2Config& c);

template <>
struct Family<Gemma2Config> : LlamaLike<Gemma2Config> {
  static constexpr std::string_view kName = "gemma2";
  static constexpr HfClasses kClasses{.model = "Gemma2ForCausalLM",
                                      .body = "Gemma2Model",
                                      .block = "Gemma2DecoderLayer",
                                      .attention = "Gemma2Attention",
                                      .mlp = "Gemma2MLP",
                                      .norm = "Gemma2RMSNorm"};
  static std::vector<SizeConflict> size_conflicts(const Gemma2Config& c);
  static TransformerSpec transformer(const Gemma2Config& c);
  static void read_rest(const HfObject& object, Gemma2Config& c);
};

}  // namespace ds
