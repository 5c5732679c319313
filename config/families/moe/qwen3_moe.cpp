#include "config/families/moe/qwen3_moe.h"

#include "config/families/moe/moe_like.h"

namespace ds {

void fields(Visitor& v, Qwen3MoeConfig& c) { moe_like::fields(v, c); }

template struct LlamaLike<Qwen3MoeConfig>;

std::span<const HfAlias> Family<Qwen3MoeConfig>::aliases() { return moe_like::kAliases; }

std::vector<SizeConflict> Family<Qwen3MoeConfig>::size_conflicts(const Qwen3MoeConfig& c) {
  return moe_like::size_conflicts(c);
}

TransformerSpec Family<Qwen3MoeConfig>::transformer(const Qwen3MoeConfig& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  if (c.use_sliding_window && c.sliding_window) {
    spec.window = SlidingWindow{.keys = *c.sliding_window};
  }
  spec.head_norms = HeadNorms{.queries = "q_norm", .keys = "k_norm"};
  spec.classifiers = llama_like::classifiers();
  spec.experts = moe_like::spec(c);
  return spec;
}

void Family<Qwen3MoeConfig>::read_rest(const HfObject& object, Qwen3MoeConfig& c) {
  llama_like::read_rotary(object, c);
  moe_like::refuse_router_words(object);
  c.mlp_only_layers = moe_like::dense_layers(object);
}

}  // namespace ds
