#include "config/families/llama/qwen3.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Qwen3Config& c) { llama_like::fields(v, c); }

template struct LlamaLike<Qwen3Config>;

TransformerSpec Family<Qwen3Config>::transformer(const Qwen3Config& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.head_norms = HeadNorms{.queries = "q_norm", .keys = "k_norm"};
  spec.window = llama_like::window(c);
  spec.classifiers = llama_like::classifiers();
  return spec;
}

void Family<Qwen3Config>::read_rest(const HfObject& object, Qwen3Config& c) {
  llama_like::read_rotary(object, c);
  llama_like::read_window_layers(object, c);
}

}  // namespace ds
