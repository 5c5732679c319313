#include "config/families/gpt/gpt_neox.h"

#include "config/families/llama/llama_like.h"
#include "config/families/spec/hf_object.h"

namespace ds {

void fields(Visitor& v, GptNeoXConfig& c) {
  llama_like::fields(
      v, c,
      {"gelu", "gelu_new", "gelu_fast", "gelu_pytorch_tanh", "relu", "silu", "tanh", "quick_gelu"});
  v.field("use_parallel_residual", c.use_parallel_residual,
          {.meaning = "The MLP reads what attention reads, and not what attention adds to.",
           .effect = Effect::kUsed});
  llama_like::dropout_field(v, "hidden_dropout", c.hidden_dropout,
                            "Dropout after the embedding, and of what attention and the MLP give.");
}

template struct LlamaLike<GptNeoXConfig>;

TransformerSpec Family<GptNeoXConfig>::transformer(const GptNeoXConfig& c) {
  TransformerSpec spec = llama_like::transformer(c, {});
  spec.names = {.body = "gpt_neox",
                .blocks = "layers",
                .table = "embed_in",
                .last_norm = "final_layer_norm",
                .head = "embed_out",
                .attention = "attention",
                .mlp = "mlp",
                .attention_norm = "input_layernorm",
                .mlp_norm = "post_attention_layernorm"};
  spec.norms.kind = NormKind::kLayer;
  const bool bias = c.attention_bias;
  spec.attention = {
      .in = {{"query", bias}, {"key", bias}, {"value", bias}},
      .out = {"dense", bias},
      .joined = JoinedProjections{.name = "query_key_value", .order = JoinOrder::kHeadByHead}};
  spec.mlp = {.in = {{"dense_h_to_4h", true}}, .out = {"dense_4h_to_h", true}};
  spec.mlp_input = c.use_parallel_residual ? MlpInput::kBesideAttention : MlpInput::kAfterAttention;
  spec.has_gate = false;
  spec.embedding_dropout = c.hidden_dropout;
  spec.attention_out_dropout = spec.mlp_dropout = c.hidden_dropout;
  spec.dropout_places = 3;
  return spec;
}

void Family<GptNeoXConfig>::read_rest(const HfObject& object, GptNeoXConfig& c) {
  llama_like::read_rotary(object, c);
  llama_like::refuse_other_head_dim(object, c);
}

}  // namespace ds
