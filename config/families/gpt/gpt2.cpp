#include "config/families/gpt/gpt2.h"

#include <array>

#include "config/families/spec/hf_object.h"
#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {

void fields(Visitor& v, Gpt2Config& c) {
  v.field(
      "n_layer", c.n_layer,
      {.meaning = "Transformer layers.", .effect = Effect::kUsed, .min = 1, .max = kMostLayers});
  v.field("n_head", c.n_head,
          {.meaning = "Attention heads; divides n_embd.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostHeads});
  v.field("n_embd", c.n_embd,
          {.meaning = "Width of the hidden state.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestWidth});
  v.field("n_inner", c.n_inner,
          {.meaning = "Width of the MLP.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestInnerWidth,
           .unset_meaning = "4 * n_embd"});
  v.field("n_positions", c.n_positions,
          {.meaning = "Longest sequence, in tokens.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kMostPositions});
  v.field("vocab_size", c.vocab_size,
          {.meaning = "Tokens in the vocabulary.",
           .effect = Effect::kUsed,
           .min = 1,
           .max = kLargestVocabulary});
  v.field("activation_function", c.activation_function,
          {.meaning = "Activation of the MLP; gelu_new is the tanh form of gelu.",
           .effect = Effect::kUsed,
           .only = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu", "relu", "silu", "swish",
                    "tanh", "quick_gelu"}});
  v.field(
      "resid_pdrop", c.resid_pdrop,
      {.meaning = "Dropout after each sub-layer.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "embd_pdrop", c.embd_pdrop,
      {.meaning = "Dropout after the embeddings.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field(
      "attn_pdrop", c.attn_pdrop,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("layer_norm_epsilon", c.layer_norm_epsilon,
          {.meaning = "Epsilon of the layer norms.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
  v.field("scale_attn_weights", c.scale_attn_weights,
          {.meaning = "Scores of attention are divided by the root of a head's width.",
           .effect = Effect::kUsed});
  v.field("scale_attn_by_inverse_layer_idx", c.scale_attn_by_inverse_layer_idx,
          {.meaning = "Scores of attention are divided by the number of the layer, from 1.",
           .effect = Effect::kUsed});
  v.field(
      "tie_word_embeddings", c.tie_word_embeddings,
      {.meaning = "The output projection shares the token embedding.", .effect = Effect::kUsed});
}

std::span<const HfAlias> Family<Gpt2Config>::aliases() {
  static constexpr std::array kAliases{
      HfAlias{"hidden_size", "n_embd"}, HfAlias{"max_position_embeddings", "n_positions"},
      HfAlias{"num_attention_heads", "n_head"}, HfAlias{"num_hidden_layers", "n_layer"}};
  return kAliases;  // GPT2Config.attribute_map
}

ModelDimensions Family<Gpt2Config>::dimensions(const Gpt2Config& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.n_positions,
          .width = c.n_embd,
          .layers = c.n_layer,
          .heads = c.n_head,
          .kv_heads = c.n_head,
          .head_dim = c.n_embd / c.n_head,
          .inner = c.n_inner.value_or(4 * c.n_embd),
          .attention_dropout = c.attn_pdrop};
}

void Family<Gpt2Config>::set_dimensions(Gpt2Config& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  c.n_positions = dims.positions;
  c.n_embd = dims.width;
  c.n_layer = dims.layers;
  c.n_head = dims.heads;
  c.n_inner = dims.inner == 4 * dims.width ? std::nullopt : std::optional(dims.inner);
  c.attn_pdrop = dims.attention_dropout;
}

std::vector<SizeConflict> Family<Gpt2Config>::size_conflicts(const Gpt2Config& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "n_head", c.n_head, c.n_embd, "n_embd");
  return found;
}

TransformerSpec Family<Gpt2Config>::transformer(const Gpt2Config& c) {
  return {.names = {.body = "transformer",
                    .blocks = "h",
                    .table = "wte",
                    .positions = "wpe",
                    .last_norm = "ln_f",
                    .attention = "attn",
                    .mlp = "mlp",
                    .attention_norm = "ln_1",
                    .mlp_norm = "ln_2"},
          .norms = {.kind = NormKind::kLayer, .eps = c.layer_norm_epsilon},
          .attention = {.in = {{"c_attn", true}}, .out = {"c_proj", true}},
          .mlp = {.in = {{"c_fc", true}}, .out = {"c_proj", true}},
          .inputs_first = true,
          .has_gate = false,
          .activation = c.activation_function,
          .scores = {.scale = c.scale_attn_weights ? 0.0 : 1.0,
                     .by_layer = c.scale_attn_by_inverse_layer_idx},
          .classifiers = {.texts =
                              ClassifierSpec{
                                  .scores = "score", .has_bias = false, .row = ScoredRow::kLast},
                          .tokens =
                              ClassifierSpec{
                                  .scores = "classifier", .dropout = 0.1, .row = ScoredRow::kEach}},
          .initializer_range = c.initializer_range,
          .scales_branches = true,
          .embedding_dropout = c.embd_pdrop,
          .attention_out_dropout = c.resid_pdrop,
          .mlp_dropout = c.resid_pdrop,
          .dropout_places = 3};
}

void Family<Gpt2Config>::read_rest(const HfObject& object, Gpt2Config& /*c*/) {
  object.refuse_unless("add_cross_attention", false);
}

}  // namespace ds
