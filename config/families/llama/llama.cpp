#include "config/families/llama/llama.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, LlamaConfig& c) { llama_like::fields(v, c); }

template struct LlamaLike<LlamaConfig>;

TransformerSpec Family<LlamaConfig>::transformer(const LlamaConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = c.attention_bias,
                                                     .attention_out = c.attention_bias,
                                                     .mlp = c.mlp_bias});
  spec.classifiers = llama_like::classifiers();
  return spec;
}

void Family<LlamaConfig>::read_rest(const HfObject& object, LlamaConfig& c) {
  llama_like::read_rotary(object, c);
}

}  // namespace ds
