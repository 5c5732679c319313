#include "config/families/bert/distilbert.h"

#include <array>

#include "config/families/spec/activations.h"
#include "config/families/spec/hf_object.h"
#include "config/families/spec/plain_sizes.h"

namespace ds {
namespace {

constexpr double kNormEps = 1e-12;  // no key says it

void size_fields(Visitor& v, DistilBertConfig& c) {
  using plain_sizes::size_field;
  size_field(v, "n_layers", c.n_layers, "Transformer layers.", kMostLayers);
  size_field(v, "n_heads", c.n_heads, "Attention heads; divides dim.", kMostHeads);
  size_field(v, "dim", c.dim, "Width of the hidden state.", kLargestWidth);
  size_field(v, "hidden_dim", c.hidden_dim, "Width of the MLP.", kLargestInnerWidth);
  size_field(v, "max_position_embeddings", c.max_position_embeddings,
             "Longest sequence, in tokens.", kMostPositions);
  plain_sizes::vocabulary_field(v, c);
}

}  // namespace

void fields(Visitor& v, DistilBertConfig& c) {
  size_fields(v, c);
  v.field("activation", c.activation,
          {.meaning = "Activation of the MLP, and of the layer before the head.",
           .effect = Effect::kUsed,
           .only = encoder_activations()});
  for (const auto& [key, slot, meaning] :
       std::initializer_list<std::tuple<const char*, double&, const char*>>{
           {"dropout", c.dropout,
            "Dropout after the embedding, of what the MLP gives, and before scores of tokens."},
           {"attention_dropout", c.attention_dropout, "Dropout on attention weights."},
           {"seq_classif_dropout", c.seq_classif_dropout, "Dropout before scores of texts."}}) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed, .min = 0, .below = 1});
  }
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
}

std::span<const HfAlias> Family<DistilBertConfig>::aliases() {
  static constexpr std::array kAliases{HfAlias{"hidden_size", "dim"},
                                       HfAlias{"num_attention_heads", "n_heads"},
                                       HfAlias{"num_hidden_layers", "n_layers"}};
  return kAliases;  // DistilBertConfig.attribute_map
}

ModelDimensions Family<DistilBertConfig>::dimensions(const DistilBertConfig& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.dim,
          .layers = c.n_layers,
          .heads = c.n_heads,
          .kv_heads = c.n_heads,
          .head_dim = c.n_heads < 1 ? 0 : c.dim / c.n_heads,
          .inner = c.hidden_dim,
          .attention_dropout = c.attention_dropout};
}

void Family<DistilBertConfig>::set_dimensions(DistilBertConfig& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  c.max_position_embeddings = dims.positions;
  c.dim = dims.width;
  c.n_layers = dims.layers;
  c.n_heads = dims.heads;
  c.hidden_dim = dims.inner;
  c.attention_dropout = dims.attention_dropout;
}

std::vector<SizeConflict> Family<DistilBertConfig>::size_conflicts(const DistilBertConfig& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "n_heads", c.n_heads, c.dim, "dim");
  return found;
}

TransformerSpec Family<DistilBertConfig>::transformer(const DistilBertConfig& c) {
  return {
      .names = {.body = "distilbert",
                .blocks = "transformer.layer",
                .table = "embeddings.word_embeddings",
                .positions = "embeddings.position_embeddings",
                .table_norm = "embeddings.LayerNorm",
                .head = "vocab_projector",
                .attention = "attention",
                .mlp = "ffn",
                .attention_sum_norm = "sa_layer_norm",
                .mlp_sum_norm = "output_layer_norm"},
      .norms = {.kind = NormKind::kLayer, .eps = kNormEps},
      .attention = {.in = {{"q_lin", true}, {"k_lin", true}, {"v_lin", true}},
                    .out = {"out_lin", true}},
      .mlp = {.in = {{"lin1", true}}, .out = {"lin2", true}},
      .has_gate = false,
      .activation = c.activation,
      .head = {.transform = HeadTransform{.linear = "vocab_transform",
                                          .norm = "vocab_layer_norm",
                                          .activation = c.activation},
               .bias = "vocab_projector"},
      .classifiers = {.texts = ClassifierSpec{.transform = HeadTransform{.linear = "pre_classifier",
                                                                         .activation = "relu"},
                                              .scores = "classifier",
                                              .dropout = c.seq_classif_dropout},
                      .tokens = ClassifierSpec{.scores = "classifier",
                                               .dropout = c.dropout,
                                               .row = ScoredRow::kEach}},
      .attention_kind = AttentionKind::kBidirectional,
      .initializer_range = c.initializer_range,
      .embedding_dropout = c.dropout,
      .mlp_dropout = c.dropout,
      .dropout_places = 3};
}

void Family<DistilBertConfig>::read_rest(const HfObject& object, DistilBertConfig& /*c*/) {
  object.refuse_unless("tie_word_embeddings", true);
  object.refuse_unless("sinusoidal_pos_embds", false);  // positions that are not trained
}

}  // namespace ds
