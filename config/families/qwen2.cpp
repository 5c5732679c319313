#include "config/families/qwen2.h"

#include "config/families/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Qwen2Config& c) { llama_like::fields(v, c); }

ModelDimensions Family<Qwen2Config>::dimensions(const Qwen2Config& c) {
  return llama_like::dimensions(c);
}

void Family<Qwen2Config>::set_dimensions(Qwen2Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<Qwen2Config>::size_conflicts(const Qwen2Config& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<Qwen2Config>::decoder(const Qwen2Config& c) {
  DecoderSpec spec = llama_like::decoder(c, {.queries_keys_values = true});
  spec.window = llama_like::window(c);
  return spec;
}

void Family<Qwen2Config>::read_rest(const HfObject& object, Qwen2Config& c) {
  llama_like::read_rotary(object, c.rope_theta, c.rope_scaling);
  llama_like::refuse_other_head_dim(object, c);
  llama_like::read_window_layers(object, c);
}

}  // namespace ds
