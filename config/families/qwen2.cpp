#include "config/families/qwen2.h"

#include "config/families/llama_like.h"

namespace ds {
namespace {

// Layers from max_window_layers on see a window, if there are any.
std::optional<int64_t> window_of(const Qwen2Config& c) {
  if (!c.use_sliding_window || c.max_window_layers >= c.num_hidden_layers) return std::nullopt;
  return c.sliding_window;
}

}  // namespace

void fields(Visitor& v, Qwen2Config& c) { llama_like::fields(v, c); }

ModelDimensions Family<Qwen2Config>::dimensions(const Qwen2Config& c) {
  return llama_like::dimensions(c, window_of(c));
}

void Family<Qwen2Config>::set_dimensions(Qwen2Config& c, const ModelDimensions& dims) {
  llama_like::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<Qwen2Config>::size_conflicts(const Qwen2Config& c) {
  return llama_like::size_conflicts(c);
}

DecoderSpec Family<Qwen2Config>::decoder(const Qwen2Config& c) {
  return llama_like::decoder(c, {.queries_keys_values = true});
}

void Family<Qwen2Config>::read_rest(const HfObject& object, Qwen2Config& c) {
  llama_like::read_rotary(object, c.rope_theta);
  llama_like::refuse_layer_types(object, window_of(c).has_value());
}

}  // namespace ds
