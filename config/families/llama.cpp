#include "config/families/llama.h"

#include "config/families/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, LlamaConfig& c) { llama_like::fields(v, c); }

ModelDimensions Family<LlamaConfig>::dimensions(const LlamaConfig& c) {
  return llama_like::dimensions(c);
}

void Family<LlamaConfig>::set_dimensions(LlamaConfig& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<LlamaConfig>::size_conflicts(const LlamaConfig& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<LlamaConfig>::decoder(const LlamaConfig& c) {
  return llama_like::decoder(c, {.queries_keys_values = c.attention_bias,
                                 .attention_out = c.attention_bias,
                                 .mlp = c.mlp_bias});
}

void Family<LlamaConfig>::read_rest(const HfObject& object, LlamaConfig& c) {
  llama_like::read_rotary(object, c.rope_theta, c.rope_scaling);
}

}  // namespace ds
