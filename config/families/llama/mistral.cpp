#include "config/families/llama/mistral.h"

#include <algorithm>

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, MistralConfig& c) { llama_like::fields(v, c); }

template struct LlamaLike<MistralConfig>;

TransformerSpec Family<MistralConfig>::transformer(const MistralConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {});
  spec.classifiers = llama_like::classifiers();
  if (c.sliding_window) spec.window = SlidingWindow{.keys = *c.sliding_window};
  return spec;
}

void Family<MistralConfig>::read_rest(const HfObject& object, MistralConfig& c) {
  llama_like::read_rotary(object, c);
  const LayerTypes types =
      read_layer_types(object, c.num_hidden_layers, c.sliding_window.has_value());
  if (!types || is_window_of({}, types)) return;
  if (std::ranges::count(full_layers(types), true) < c.num_hidden_layers) {
    object.refuse("a window of some layers (\"layer_types\") of a Mistral");
  }
  c.sliding_window.reset();
}

}  // namespace ds
