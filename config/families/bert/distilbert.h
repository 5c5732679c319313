// DistilBERT (Sanh et al., arXiv 1910.01108) as Hugging Face's DistilBertForMaskedLM computes it:
// BERT without segments and without a pooler, in words of its own.
#pragma once

#include "config/families/spec/family.h"

namespace ds {

struct DistilBertConfig {
  static constexpr bool tie_word_embeddings = true;  // others are refused
  int64_t n_layers = 6;
  int64_t n_heads = 12;
  int64_t dim = 768;
  int64_t hidden_dim = 3072;
  int64_t max_position_embeddings = 512;
  int64_t vocab_size = 30522;
  std::string activation = "gelu";
  double dropout = 0.1;
  double attention_dropout = 0.1;
  double seq_classif_dropout = 0.2;
  double initializer_range = 0.02;
};
void fields(Visitor& v, DistilBertConfig& c);

template <>
struct Family<DistilBertConfig> {
  static constexpr std::string_view kName = "distilbert";
  static constexpr HfClasses kClasses{.model = "DistilBertForMaskedLM",
                                      .body = "DistilBertModel",
                                      .block = "TransformerBlock",
                                      .attention = "DistilBertSelfAttention",
                                      .mlp = "FFN",
                                      .norm = "LayerNorm"};
  static constexpr std::string_view kLayersKey = "n_layers";
  static std::span<const HfAlias> aliases();
  static ModelDimensions dimensions(const DistilBertConfig& c);
  static void set_dimensions(DistilBertConfig& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const DistilBertConfig& c);
  static TransformerSpec transformer(const DistilBertConfig& c);
  static void read_rest(const HfObject& object, DistilBertConfig& c);
};

}  // namespace ds
