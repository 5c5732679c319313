#include "config/families/gemma/gemma3.h"

#include <algorithm>

#include "config/families/gemma/gemma_like.h"
#include "config/families/spec/hf_object.h"
#include "core/status/error.h"

namespace ds {
namespace {

// They say it of each layer, and that counts.
void read_pattern(const HfObject& object, Gemma3Config& c) {
  c.layer_types = read_layer_types(object, c.num_hidden_layers);
  if (!c.layer_types) return;
  const std::vector<bool> full = full_layers(c.layer_types);
  const auto first = std::ranges::find(full, true);
  const int64_t pattern = first != full.end()
                              ? first - full.begin() + 1
                              : std::max(c.sliding_window_pattern, c.num_hidden_layers + 1);
  if (!is_window_of({.full_every = pattern}, c.layer_types)) return;
  c.sliding_window_pattern = pattern;
  c.layer_types.reset();
}

}  // namespace

void fields(Visitor& v, Gemma3Config& c) {
  gemma_like::fields(v, c);
  v.field("sliding_window_pattern", c.sliding_window_pattern,
          {.meaning = "Every so many-th layer sees all keys, the others a window of them.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostLayers + 1});
  layer_types_field(v, c.layer_types, "as sliding_window_pattern says");
  v.field("rope_local_base_freq", c.rope_local_base_freq,
          {.meaning = "Base of the rotary frequencies of layers with a window.",
           .effect = Effect::kUsed,
           .above = 0});
}

template struct LlamaLike<Gemma3Config>;

std::vector<SizeConflict> Family<Gemma3Config>::size_conflicts(const Gemma3Config& c) {
  return gemma_like::size_conflicts(c);
}

TransformerSpec Family<Gemma3Config>::transformer(const Gemma3Config& c) {
  TransformerSpec spec = gemma_like::transformer(c, c.sliding_window_pattern);
  spec.head_norms = HeadNorms{.queries = "q_norm", .keys = "k_norm"};
  spec.window_rotary = RotarySpec{.theta = c.rope_local_base_freq};
  return spec;
}

void Family<Gemma3Config>::read_rest(const HfObject& object, Gemma3Config& c) {
  llama_like::read_rotary_of_layers(object, llama_like::rotary_words(c),
                                    {"rope_local_base_freq", c.rope_local_base_freq});
  read_pattern(object, c);
  gemma_like::refuse_others(object);
  if (object.find("attn_logit_softcapping") != nullptr) {
    object.refuse("\"attn_logit_softcapping\" of a Gemma 3");
  }
}

}  // namespace ds
