#include "config/families/qwen3.h"

#include "config/families/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Qwen3Config& c) { llama_like::fields(v, c); }

ModelDimensions Family<Qwen3Config>::dimensions(const Qwen3Config& c) {
  return llama_like::dimensions(c);
}

void Family<Qwen3Config>::set_dimensions(Qwen3Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<Qwen3Config>::size_conflicts(const Qwen3Config& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<Qwen3Config>::decoder(const Qwen3Config& c) {
  DecoderSpec spec = llama_like::decoder(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.head_norms = HeadNorms{.queries = "q_norm", .keys = "k_norm"};
  spec.window = llama_like::window(c);
  return spec;
}

void Family<Qwen3Config>::read_rest(const HfObject& object, Qwen3Config& c) {
  llama_like::read_rotary(object, c.rope_theta, c.rope_scaling);
  llama_like::read_window_layers(object, c);
}

}  // namespace ds
