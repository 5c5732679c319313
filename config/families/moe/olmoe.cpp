#include "config/families/moe/olmoe.h"

#include "config/families/moe/moe_like.h"

namespace ds {

void fields(Visitor& v, OlmoeConfig& c) { moe_like::fields(v, c); }

template struct LlamaLike<OlmoeConfig>;

std::span<const HfAlias> Family<OlmoeConfig>::aliases() { return moe_like::kAliases; }

std::vector<SizeConflict> Family<OlmoeConfig>::size_conflicts(const OlmoeConfig& c) {
  return moe_like::size_conflicts(c);
}

TransformerSpec Family<OlmoeConfig>::transformer(const OlmoeConfig& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.attention_bias, .attention_out = c.attention_bias});
  spec.head_norms =
      HeadNorms{.queries = "q_norm", .keys = "k_norm", .extent = HeadNorms::Extent::kAllHeads};
  spec.experts = moe_like::spec(c);
  return spec;
}

void Family<OlmoeConfig>::read_rest(const HfObject& object, OlmoeConfig& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
  moe_like::refuse_router_words(object);
  if (object.find("clip_qkv") != nullptr)
    object.refuse("clipped queries, keys and values (\"clip_qkv\")");
}

}  // namespace ds
