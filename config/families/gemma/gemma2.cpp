#include "config/families/gemma/gemma2.h"

#include "config/families/gemma/gemma_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {
namespace {

constexpr int64_t kFullEvery = 2;  // layers

}  // namespace

void fields(Visitor& v, Gemma2Config& c) {
  gemma_like::fields(v, c);
  layer_types_field(v, c.layer_types, "all keys in every second layer");
}

template struct LlamaLike<Gemma2Config>;

std::vector<SizeConflict> Family<Gemma2Config>::size_conflicts(const Gemma2Config& c) {
  return gemma_like::size_conflicts(c);
}

TransformerSpec Family<Gemma2Config>::transformer(const Gemma2Config& c) {
  return gemma_like::transformer(c, kFullEvery);
}

void Family<Gemma2Config>::read_rest(const HfObject& object, Gemma2Config& c) {
  llama_like::read_rotary(object, c);
  gemma_like::refuse_others(object);
  c.layer_types = read_unusual_layer_types(object, c.num_hidden_layers, {.full_every = kFullEvery});
}

}  // namespace ds
