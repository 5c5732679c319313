#include "config/families/gpt/opt.h"

#include "config/families/spec/hf_object.h"
#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {
namespace {

constexpr int64_t kFirstPosition = 2;
constexpr double kNormEps = 1e-5;  // PyTorch's; no key says another

void opt_sizes(Visitor& v, OptConfig& c) {
  const auto size = [&](std::string_view key, int64_t& slot, const char* meaning, int64_t most) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed, .min = 1, .max = most});
  };
  size("num_hidden_layers", c.num_hidden_layers, "Transformer layers.", kMostLayers);
  size("num_attention_heads", c.num_attention_heads, "Attention heads; divides hidden_size.",
       kMostHeads);
  size("hidden_size", c.hidden_size, "Width of the hidden state.", kLargestWidth);
  size("ffn_dim", c.ffn_dim, "Width of the MLP.", kLargestInnerWidth);
  size("max_position_embeddings", c.max_position_embeddings, "Longest sequence, in tokens.",
       kMostPositions);
  size("vocab_size", c.vocab_size, "Tokens in the vocabulary.", kLargestVocabulary);
}

}  // namespace

void fields(Visitor& v, OptConfig& c) {
  opt_sizes(v, c);
  v.field("activation_function", c.activation_function,
          {.meaning = "Activation of the MLP.",
           .effect = Effect::kUsed,
           .only = {"relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "silu"}});
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
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_attention_heads,
          .head_dim = c.num_attention_heads < 1 ? 0 : c.hidden_size / c.num_attention_heads,
          .inner = c.ffn_dim,
          .attention_dropout = c.attention_dropout};
}

void Family<OptConfig>::set_dimensions(OptConfig& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  c.max_position_embeddings = dims.positions;
  c.hidden_size = dims.width;
  c.num_hidden_layers = dims.layers;
  c.num_attention_heads = dims.heads;
  c.ffn_dim = dims.inner;
  c.attention_dropout = dims.attention_dropout;
}

std::vector<SizeConflict> Family<OptConfig>::size_conflicts(const OptConfig& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "num_attention_heads", c.num_attention_heads, c.hidden_size,
                     "hidden_size");
  return found;
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
  return spec;
}

void Family<OptConfig>::read_rest(const HfObject& object, OptConfig& c) {
  object.refuse_unless("_remove_final_layer_norm", false);
  object.refuse_unless("layer_norm_elementwise_affine", true);
  const double width = static_cast<double>(c.hidden_size);
  if (object.number("word_embed_proj_dim").value_or(width) != width) {
    object.refuse("a \"word_embed_proj_dim\" other than \"hidden_size\"");
  }
  if (object.number("layerdrop").value_or(0) != 0) object.refuse("a \"layerdrop\" other than 0");
}

}  // namespace ds
