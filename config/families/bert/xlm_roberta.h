// XLM-RoBERTa (Conneau et al., arXiv 1911.02116) as Hugging Face's XLMRobertaForMaskedLM computes
// it: a RoBERTa of a hundred languages, with another vocabulary.
#pragma once

#include "config/families/bert/roberta.h"

namespace ds {

struct XlmRobertaConfig : RobertaConfig {
  XlmRobertaConfig();
};
void fields(Visitor& v, XlmRobertaConfig& c);

template <>
struct Family<XlmRobertaConfig> : Family<RobertaConfig> {
  static constexpr std::string_view kName = "xlm-roberta";
  static constexpr HfClasses kClasses{.model = "XLMRobertaForMaskedLM",
                                      .body = "XLMRobertaModel",
                                      .block = "XLMRobertaLayer",
                                      .attention = "XLMRobertaAttention",
                                      .mlp = "XLMRobertaIntermediate",
                                      .norm = "LayerNorm"};
};

}  // namespace ds
