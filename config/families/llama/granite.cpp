#include "config/families/llama/granite.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, GraniteConfig& c) {
  llama_like::fields(v, c, {"silu", "gelu", "gelu_pytorch_tanh", "relu", "tanh", "quick_gelu"});
  v.field(
      "embedding_multiplier", c.embedding_multiplier,
      {.meaning = "Factor of what tokens are looked up as.", .effect = Effect::kUsed, .above = 0});
  v.field("attention_multiplier", c.attention_multiplier,
          {.meaning = "Factor of the scores of attention, in place of 1 / sqrt(head_dim).",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("residual_multiplier", c.residual_multiplier,
          {.meaning = "Factor of what attention and the MLP add to the residual stream.",
           .effect = Effect::kUsed,
           .above = 0});
  v.field("logits_scaling", c.logits_scaling,
          {.meaning = "Logits are divided by it.", .effect = Effect::kUsed, .above = 0});
}

template struct LlamaLike<GraniteConfig>;

TransformerSpec Family<GraniteConfig>::transformer(const GraniteConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = c.attention_bias,
                                                     .attention_out = c.attention_bias,
                                                     .mlp = c.mlp_bias});
  spec.scores.scale = c.attention_multiplier;
  spec.factors = {.embedding = c.embedding_multiplier,
                  .branch = c.residual_multiplier,
                  .logits = 1 / c.logits_scaling};
  return spec;
}

void Family<GraniteConfig>::read_rest(const HfObject& object, GraniteConfig& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
