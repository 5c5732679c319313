#include "config/families/bert/xlm_roberta.h"

namespace ds {

XlmRobertaConfig::XlmRobertaConfig() { vocab_size = 30522; }

void fields(Visitor& v, XlmRobertaConfig& c) { fields(v, static_cast<RobertaConfig&>(c)); }

}  // namespace ds
