// BERT (Devlin et al., arXiv 1810.04805) as Hugging Face's BertForMaskedLM computes it: attention
// that sees both sides, learned positions and segments, a norm of the embedding and one of each sum
// of the residual stream with a branch, and a head with a layer of its own before the tied product.
#pragma once

#include <optional>

#include "config/families/spec/family.h"

namespace ds {

// The words that BERT and its kin have in common.
struct BertWords {
  static constexpr bool tie_word_embeddings = true;  // others are refused
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t hidden_size = 768;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  int64_t vocab_size = 30522;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double layer_norm_eps = 1e-12;
  double initializer_range = 0.02;
};

struct BertConfig : BertWords {};
void fields(Visitor& v, BertConfig& c);

// The members of Family<> that those families have in common.
struct BertLike {
  static constexpr std::string_view kLayersKey = "num_hidden_layers";
  static std::span<const HfAlias> aliases() { return {}; }
  static ModelDimensions dimensions(const BertWords& c);
  static void set_dimensions(BertWords& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const BertWords& c);
  static TransformerSpec transformer(const BertWords& c);
  static void fields(Visitor& v, BertWords& c);
  static void refuse_others(const HfObject& object);
};

template <>
struct Family<BertConfig> : BertLike {
  static constexpr std::string_view kName = "bert";
  static constexpr HfClasses kClasses{.model = "BertForMaskedLM",
                                      .body = "BertModel",
                                      .block = "BertLayer",
                                      .attention = "BertAttention",
                                      .mlp = "BertIntermediate",
                                      .norm = "LayerNorm",
                                      .with_other_heads = "BertForPreTraining"};
  static TransformerSpec transformer(const BertConfig& c);
  static void read_rest(const HfObject& object, BertConfig& c);
};

}  // namespace ds
