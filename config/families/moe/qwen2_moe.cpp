#include "config/families/moe/qwen2_moe.h"

#include "config/families/moe/moe_like.h"

namespace ds {

void fields(Visitor& v, Qwen2MoeConfig& c) {
  moe_like::fields(v, c);
  v.field("qkv_bias", c.qkv_bias,
          {.meaning = "Queries, keys and values have biases.", .effect = Effect::kUsed});
}

template struct LlamaLike<Qwen2MoeConfig>;

std::span<const HfAlias> Family<Qwen2MoeConfig>::aliases() { return moe_like::kAliases; }

std::vector<SizeConflict> Family<Qwen2MoeConfig>::size_conflicts(const Qwen2MoeConfig& c) {
  return moe_like::size_conflicts(c);
}

TransformerSpec Family<Qwen2MoeConfig>::transformer(const Qwen2MoeConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = c.qkv_bias});
  spec.classifiers = llama_like::classifiers();
  spec.experts = moe_like::spec(c);
  return spec;
}

void Family<Qwen2MoeConfig>::read_rest(const HfObject& object, Qwen2MoeConfig& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
  object.refuse_unless("use_sliding_window", false);
  for (const char* const of_window : {"sliding_window", "max_window_layers"})
    object.find(of_window);
  read_layer_types(object, c.num_hidden_layers, false);
  moe_like::refuse_router_words(object);
  c.mlp_only_layers = moe_like::dense_layers(object);
}

}  // namespace ds
