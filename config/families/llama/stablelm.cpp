#include "config/families/llama/stablelm.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, StableLmConfig& c) {
  llama_like::fields(v, c);
  v.field("use_qkv_bias", c.use_qkv_bias,
          {.meaning = "The projections of queries, keys and values have biases.",
           .effect = Effect::kUsed});
  v.field("qk_layernorm", c.qk_layernorm,
          {.meaning = "Each head of queries and of keys has a norm of its own.",
           .effect = Effect::kUsed});
  v.field("use_parallel_residual", c.use_parallel_residual,
          {.meaning = "The MLP reads what attention reads, and not what it gave.",
           .effect = Effect::kUsed});
  llama_like::dropout_field(v, "hidden_dropout", c.hidden_dropout,
                            "Dropout of what the MLP gives.");
}

template struct LlamaLike<StableLmConfig>;

TransformerSpec Family<StableLmConfig>::transformer(const StableLmConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {.queries_keys_values = c.use_qkv_bias});
  spec.norms.kind = NormKind::kLayer;
  spec.mlp_dropout = c.hidden_dropout;
  spec.dropout_places = 3;
  if (c.qk_layernorm) {
    spec.head_norms = HeadNorms{.queries = "q_layernorm.norms",
                                .keys = "k_layernorm.norms",
                                .extent = HeadNorms::Extent::kEachOwn,
                                .kind = NormKind::kLayerUnbiased};
  }
  if (c.use_parallel_residual) {
    spec.mlp_input = MlpInput::kAsAttention;
    spec.names.mlp_norm = {};
  }
  return spec;
}

void Family<StableLmConfig>::read_rest(const HfObject& object, StableLmConfig& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
