#include "config/families/bert/bert.h"

#include "config/families/spec/hf_object.h"
#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {
namespace {

constexpr int64_t kMostSegments = 1 << 16;

void size_fields(Visitor& v, BertWords& c) {
  const auto size = [&](std::string_view key, int64_t& slot, const char* meaning, int64_t most) {
    v.field(key, slot, {.meaning = meaning, .effect = Effect::kUsed, .min = 1, .max = most});
  };
  size("num_hidden_layers", c.num_hidden_layers, "Transformer layers.", kMostLayers);
  size("num_attention_heads", c.num_attention_heads, "Attention heads; divides hidden_size.",
       kMostHeads);
  size("hidden_size", c.hidden_size, "Width of the hidden state.", kLargestWidth);
  size("intermediate_size", c.intermediate_size, "Width of the MLP.", kLargestInnerWidth);
  size("max_position_embeddings", c.max_position_embeddings,
       "Rows of the table of positions: of the longest sequence, in tokens.", kMostPositions);
  size("type_vocab_size", c.type_vocab_size, "Segments that a sequence may have.", kMostSegments);
  size("vocab_size", c.vocab_size, "Tokens in the vocabulary.", kLargestVocabulary);
}

}  // namespace

void BertLike::fields(Visitor& v, BertWords& c) {
  size_fields(v, c);
  v.field("hidden_act", c.hidden_act,
          {.meaning = "Activation of the MLP; gelu_new is the tanh form of gelu.",
           .effect = Effect::kUsed,
           .only = {"gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu", "silu"}});
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

ModelDimensions BertLike::dimensions(const BertWords& c) {
  return {.vocabulary = c.vocab_size,
          .positions = c.max_position_embeddings,
          .width = c.hidden_size,
          .layers = c.num_hidden_layers,
          .heads = c.num_attention_heads,
          .kv_heads = c.num_attention_heads,
          .head_dim = c.num_attention_heads < 1 ? 0 : c.hidden_size / c.num_attention_heads,
          .inner = c.intermediate_size,
          .attention_dropout = c.attention_probs_dropout_prob};
}

void BertLike::set_dimensions(BertWords& c, const ModelDimensions& dims) {
  c.vocab_size = dims.vocabulary;
  c.max_position_embeddings = dims.positions;
  c.hidden_size = dims.width;
  c.num_hidden_layers = dims.layers;
  c.num_attention_heads = dims.heads;
  c.intermediate_size = dims.inner;
  c.attention_probs_dropout_prob = dims.attention_dropout;
}

std::vector<SizeConflict> BertLike::size_conflicts(const BertWords& c) {
  std::vector<SizeConflict> found;
  add_unless_divides(found, "num_attention_heads", c.num_attention_heads, c.hidden_size,
                     "hidden_size");
  return found;
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

void Family<BertConfig>::read_rest(const HfObject& object, BertConfig& /*c*/) {
  refuse_others(object);
}

}  // namespace ds
