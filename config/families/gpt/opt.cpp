#include "config/families/gpt/opt.h"

#include "config/families/spec/hf_object.h"
#include "config/families/spec/plain_sizes.h"

namespace ds {
namespace {

constexpr int64_t kFirstPosition = 2;
constexpr double kNormEps = 1e-5;  // PyTorch's; no key says another

}  // namespace

void fields(Visitor& v, OptConfig& c) {
  plain_sizes::fields(v, c);
  plain_sizes::vocabulary_field(v, c);
  v.field("word_embed_proj_dim", c.word_embed_proj_dim,
          {.meaning = "Width of the table of tokens; another than hidden_size has projections in "
                      "front of the blocks and behind them.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth,
           .unset_meaning = "hidden_size"});
  v.field("activation_function", c.activation_function,
          {.meaning = "Activation of the MLP.",
           .effect = Effect::kUsed,
           .only = {"relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "silu", "tanh",
                    "quick_gelu"}});
  v.field("do_layer_norm_before", c.do_layer_norm_before,
          {.meaning = "Norms stand before attention and the MLP, and not behind the sums.",
           .effect = Effect::kUsed});
  v.field("enable_bias", c.enable_bias,
          {.meaning = "Linear layers of blocks have biases.", .effect = Effect::kUsed});
  v.field("dropout", c.dropout,
          {.meaning = "Dropout of what attention and the MLP give.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field(
      "attention_dropout", c.attention_dropout,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "init_std", c.init_std,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

ModelDimensions Family<OptConfig>::dimensions(const OptConfig& c) {
  return plain_sizes::dimensions(c);
}

void Family<OptConfig>::set_dimensions(OptConfig& c, const ModelDimensions& dims) {
  plain_sizes::set_dimensions(c, dims);
}

std::vector<SizeConflict> Family<OptConfig>::size_conflicts(const OptConfig& c) {
  return plain_sizes::size_conflicts(c);
}

TransformerSpec Family<OptConfig>::transformer(const OptConfig& c) {
  const bool bias = c.enable_bias;
  TransformerSpec spec{.names = {.body = "model.decoder",
                                 .blocks = "layers",
                                 .table = "embed_tokens",
                                 .positions = "embed_positions",
                                 .attention = "self_attn",
                                 .mlp = ""},
                       .norms = {.kind = NormKind::kLayer, .eps = kNormEps},
                       .attention = {.in = {{"q_proj", bias}, {"k_proj", bias}, {"v_proj", bias}},
                                     .out = {"out_proj", bias}},
                       .mlp = {.in = {{"fc1", bias}}, .out = {"fc2", bias}},
                       .has_gate = false,
                       .activation = c.activation_function,
                       .tables = {.first_position = kFirstPosition},
                       .initializer_range = c.init_std,
                       .attention_out_dropout = c.dropout,
                       .mlp_dropout = c.dropout,
                       .dropout_places = 3};
  TransformerNames& names = spec.names;
  if (c.do_layer_norm_before) names.last_norm = "final_layer_norm";
  (c.do_layer_norm_before ? names.attention_norm : names.attention_sum_norm) =
      "self_attn_layer_norm";
  (c.do_layer_norm_before ? names.mlp_norm : names.mlp_sum_norm) = "final_layer_norm";
  const int64_t table = c.word_embed_proj_dim.value_or(c.hidden_size);
  if (table == c.hidden_size) return spec;
  spec.tables.width = table;
  names.projection_in = "project_in";
  names.projection_out = "project_out";
  return spec;
}

void Family<OptConfig>::read_rest(const HfObject& object, OptConfig&) {
  object.refuse_unless("_remove_final_layer_norm", false);
  object.refuse_unless("layer_norm_elementwise_affine", true);
  if (object.number("layerdrop").value_or(0) != 0) object.refuse("a \"layerdrop\" other than 0");
}

}  // namespace ds
