#include "config/families/moe/mixtral.h"

#include "config/families/moe/moe_like.h"

namespace ds {

void fields(Visitor& v, MixtralConfig& c) { moe_like::fields(v, c); }

template struct LlamaLike<MixtralConfig>;

std::span<const HfAlias> Family<MixtralConfig>::aliases() { return moe_like::kAliasesOfLocal; }

std::vector<SizeConflict> Family<MixtralConfig>::size_conflicts(const MixtralConfig& c) {
  return moe_like::size_conflicts(c);
}

TransformerSpec Family<MixtralConfig>::transformer(const MixtralConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {});
  if (c.sliding_window) spec.window = SlidingWindow{.keys = *c.sliding_window};
  spec.classifiers = llama_like::classifiers();
  spec.experts = moe_like::spec(c);
  spec.experts->name = "block_sparse_moe";
  spec.experts->projections = {.gate = "w1", .up = "w3", .down = "w2"};
  spec.experts->sums_to_one = true;
  return spec;
}

void Family<MixtralConfig>::read_rest(const HfObject& object, MixtralConfig& c) {
  llama_like::read_rotary(object, c);
  moe_like::refuse_router_words(object);
}

}  // namespace ds
