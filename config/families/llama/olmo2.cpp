#include "config/families/llama/olmo2.h"

#include "config/families/llama/olmo_like.h"

namespace ds {

void fields(Visitor& v, Olmo2Config& c) { llama_like::fields(v, c); }

template struct LlamaLike<Olmo2Config>;

TransformerSpec Family<Olmo2Config>::transformer(const Olmo2Config& c) {
  return olmo_like::transformer(c);
}

void Family<Olmo2Config>::read_rest(const HfObject& object, Olmo2Config& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
