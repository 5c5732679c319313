#include "config/families/llama/starcoder2.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, Starcoder2Config& c) {
  llama_like::fields(v, c, {"gelu_pytorch_tanh", "gelu", "relu", "silu", "tanh", "quick_gelu"});
  v.field("use_bias", c.use_bias,
          {.meaning = "The projections of attention and the MLP have biases.",
           .effect = Effect::kUsed});
  llama_like::dropout_field(v, "residual_dropout", c.residual_dropout,
                            "Dropout of what attention and the MLP give.");
  llama_like::dropout_field(v, "embedding_dropout", c.embedding_dropout,
                            "Dropout after the embedding.");
}

template struct LlamaLike<Starcoder2Config>;

TransformerSpec Family<Starcoder2Config>::transformer(const Starcoder2Config& c) {
  TransformerSpec spec = llama_like::transformer(
      c, {.queries_keys_values = c.use_bias, .attention_out = c.use_bias, .mlp = c.use_bias});
  spec.norms.kind = NormKind::kLayer;
  spec.mlp = {.in = {{"c_fc", c.use_bias}}, .out = {"c_proj", c.use_bias}};
  spec.has_gate = false;
  if (c.sliding_window) spec.window = SlidingWindow{.keys = *c.sliding_window};
  spec.embedding_dropout = c.embedding_dropout;
  spec.attention_out_dropout = spec.mlp_dropout = c.residual_dropout;
  spec.dropout_places = 3;
  return spec;
}

void Family<Starcoder2Config>::read_rest(const HfObject& object, Starcoder2Config& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
