#include "config/families/bert/bert.h"

#include "config/families/spec/activations.h"
#include "config/families/spec/hf_object.h"
#include "config/families/spec/plain_sizes.h"

namespace ds {
namespace {

constexpr int64_t kMostSegments = 1 << 16;

void size_fields(Visitor& v, BertWords& c) {
  plain_sizes::fields(v, c, "Rows of the table of positions: of the longest sequence, in tokens.");
  plain_sizes::size_field(v, "type_vocab_size", c.type_vocab_size,
                          "Segments that a sequence may have.", kMostSegments);
  plain_sizes::vocabulary_field(v, c);
}

}  // namespace

void BertLike::fields(Visitor& v, BertWords& c) {
  size_fields(v, c);
  v.field("hidden_act", c.hidden_act,
          {.meaning = "Activation of the MLP; gelu_new is the tanh form of gelu.",
           .effect = Effect::kUsed,
           .only = encoder_activations()});
  v.field("hidden_dropout_prob", c.hidden_dropout_prob,
          {.meaning = "Dropout after the embedding, and of what attention and the MLP give.",
           .effect = Effect::kUsed,
           .min = 0,
           .below = 1});
  v.field(
      "attention_probs_dropout_prob", c.attention_probs_dropout_prob,
      {.meaning = "Dropout on attention weights.", .effect = Effect::kUsed, .min = 0, .below = 1});
  v.field("layer_norm_eps", c.layer_norm_eps,
          {.meaning = "Epsilon of the layer norms.", .effect = Effect::kUsed, .above = 0});
  v.field(
      "initializer_range", c.initializer_range,
      {.meaning = "Standard deviation of initial weights.", .effect = Effect::kUsed, .above = 0});
}

void fields(Visitor& v, BertConfig& c) { BertLike::fields(v, c); }

ModelDimensions BertLike::dimensions(const BertWords& c) { return plain_sizes::dimensions(c); }

void BertLike::set_dimensions(BertWords& c, const ModelDimensions& dims) {
  plain_sizes::set_dimensions(c, dims);
}

std::vector<SizeConflict> BertLike::size_conflicts(const BertWords& c) {
  return plain_sizes::size_conflicts(c);
}

TransformerSpec BertLike::transformer(const BertWords& c) {
  return {.names = {.body = "bert",
                    .blocks = "encoder.layer",
                    .table = "embeddings.word_embeddings",
                    .positions = "embeddings.position_embeddings",
                    .segments = "embeddings.token_type_embeddings",
                    .table_norm = "embeddings.LayerNorm",
                    .head = "cls.predictions.decoder",
                    .attention = "attention",
                    .mlp = "",
                    .attention_sum_norm = "attention.output.LayerNorm",
                    .mlp_sum_norm = "output.LayerNorm"},
          .norms = {.kind = NormKind::kLayer, .eps = c.layer_norm_eps},
          .attention = {.in = {{"self.query", true}, {"self.key", true}, {"self.value", true}},
                        .out = {"output.dense", true}},
          .mlp = {.in = {{"intermediate.dense", true}}, .out = {"output.dense", true}},
          .has_gate = false,
          .activation = c.hidden_act,
          .head = {.transform = HeadTransform{.linear = "cls.predictions.transform.dense",
                                              .norm = "cls.predictions.transform.LayerNorm",
                                              .activation = c.hidden_act},
                   .bias = "cls.predictions"},
          .classifiers = {.texts = ClassifierSpec{.transform =
                                                      HeadTransform{.linear = "bert.pooler.dense",
                                                                    .activation = "tanh"},
                                                  .scores = "classifier",
                                                  .dropout = c.hidden_dropout_prob},
                          .tokens = ClassifierSpec{.scores = "classifier",
                                                   .dropout = c.hidden_dropout_prob,
                                                   .row = ScoredRow::kEach}},
          .tables = {.segments = c.type_vocab_size},
          .attention_kind = AttentionKind::kBidirectional,
          .initializer_range = c.initializer_range,
          .embedding_dropout = c.hidden_dropout_prob,
          .attention_out_dropout = c.hidden_dropout_prob,
          .mlp_dropout = c.hidden_dropout_prob,
          .dropout_places = 3};
}

void BertLike::refuse_others(const HfObject& object) {
  object.refuse_unless("is_decoder", false);
  object.refuse_unless("add_cross_attention", false);
  object.refuse_unless("tie_word_embeddings", true);
  const rapidjson::Value* const positions = object.find("position_embedding_type");
  if (positions == nullptr) return;
  if (positions->IsString() && text_of(*positions) == "absolute") return;
  object.refuse("a \"position_embedding_type\" other than \"absolute\"");
}

TransformerSpec Family<BertConfig>::transformer(const BertConfig& c) {
  TransformerSpec spec = BertLike::transformer(c);
  spec.classifiers.pairs = ClassifierSpec{.transform = spec.classifiers.texts->transform,
                                          .scores = "cls.seq_relationship"};
  return spec;
}

void Family<BertConfig>::read_rest(const HfObject& object, BertConfig& /*c*/) {
  refuse_others(object);
}

}  // namespace ds
