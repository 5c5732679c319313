// RoBERTa (Liu et al., arXiv 1907.11692) as Hugging Face's RobertaForMaskedLM computes it: BERT
// with positions that begin behind that of the padding token, and other names in its head.
#pragma once

#include "config/families/bert/bert.h"

namespace ds {

struct RobertaConfig : BertWords {
  RobertaConfig();

  int64_t pad_token_id = 1;
};
void fields(Visitor& v, RobertaConfig& c);

template <>
struct Family<RobertaConfig> : BertLike {
  static constexpr std::string_view kName = "roberta";
  static constexpr HfClasses kClasses{.model = "RobertaForMaskedLM",
                                      .body = "RobertaModel",
                                      .block = "RobertaLayer",
                                      .attention = "RobertaAttention",
                                      .mlp = "RobertaIntermediate",
                                      .norm = "LayerNorm"};
  static ModelDimensions dimensions(const RobertaConfig& c);
  static void set_dimensions(RobertaConfig& c, const ModelDimensions& dims);
  static std::vector<SizeConflict> size_conflicts(const RobertaConfig& c);
  static TransformerSpec transformer(const RobertaConfig& c);
  static void read_rest(const HfObject& object, RobertaConfig& c);
};

}  // namespace ds
