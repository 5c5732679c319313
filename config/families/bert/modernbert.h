// ModernBERT (Warner et al., arXiv 2412.13663) as Hugging Face's ModernBertForMaskedLM computes it:
// an encoder with rotary positions, norms without biases before its branches, gates, and windows to
// both sides in all layers but the first of every three.
#pragma once

#include "config/families/spec/family.h"
#include "config/families/spec/layer_types.h"

namespace ds {

struct ModernBertConfig {
  static constexpr bool tie_word_embeddings = true;  // others are refused
  int64_t num_hidden_layers = 22;
  int64_t num_attention_heads = 12;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 1152;
  int64_t max_position_embeddings = 8192;
  int64_t vocab_size = 50368;
  int64_t local_attention = 128;
  int64_t global_attn_every_n_layers = 3;
  LayerTypes layer_types = {};
  double global_rope_theta = 160000.0;
  double local_rope_theta = 10000.0;
  std::string hidden_activation = "gelu";
  std::string classifier_activation = "gelu";
  std::string classifier_pooling = "cls";
  double norm_eps = 1e-5;
  bool norm_bias = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool classifier_bias = false;
  bool decoder_bias = true;
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double initializer_range = 0.02;
};
void fields(Visitor& v, ModernBertConfig& c);

template <>
struct Family<ModernBertConfig> {
  static constexpr std::string_view kName = "modernbert";
  static constexpr HfClasses kClasses{.model = "ModernBertForMaskedLM",
                                      .body = "ModernBertModel",
                                      .block = "ModernBertEncoderLayer",
                                      .attention = "ModernBertAttention",
                                      .mlp = "ModernBertMLP",
                                      .norm = "LayerNorm"};
  static constexpr std::string_view kLayersKey = "num_hidden_layers";
  static std::span<const HfAlias> aliases() { return {}; }
  static ModelDimensions dimensions(const ModernBertConfig& c);
  static void set_dimensions(ModernBertConfig& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const ModernBertConfig& c);
  static TransformerSpec transformer(const ModernBertConfig& c);
  static void read_rest(const HfObject& object, ModernBertConfig& c);
};

}  // namespace ds
