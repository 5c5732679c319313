#include "config/families/llama/qwen2.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Qwen2Config& c) { llama_like::fields(v, c); }

template struct LlamaLike<Qwen2Config>;

TransformerSpec Family<Qwen2Config>::transformer(const Qwen2Config& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = true});
  spec.window = llama_like::window(c);
  spec.classifiers = llama_like::classifiers();
  return spec;
}

void Family<Qwen2Config>::read_rest(const HfObject& object, Qwen2Config& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
  llama_like::read_window_layers(object, c);
}

}  // namespace ds
