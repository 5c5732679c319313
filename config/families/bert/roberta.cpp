#include "config/families/bert/roberta.h"

#include <fmt/format.h>

#include "config/families/spec/limits.h"
#include "config/reader/fields.h"

namespace ds {
namespace {

// fairseq numbers positions from the padding token on, which has its own row.
int64_t first_position(const RobertaConfig& c) { return c.pad_token_id + 1; }

}  // namespace

RobertaConfig::RobertaConfig() { vocab_size = 50265; }

void fields(Visitor& v, RobertaConfig& c) {
  BertLike::fields(v, c);
  v.field("pad_token_id", c.pad_token_id,
          {.meaning = "The padding token. A sequence begins at the row behind it in the table of "
                      "positions, so that it may have max_position_embeddings - pad_token_id - 1 "
                      "tokens.",
           .effect = Effect::kUsed,
           .min = 0,
           .max = kLargestVocabulary});
}

ModelDimensions Family<RobertaConfig>::dimensions(const RobertaConfig& c) {
  ModelDimensions dims = BertLike::dimensions(c);
  dims.positions -= first_position(c);
  return dims;
}

void Family<RobertaConfig>::set_dimensions(RobertaConfig& c, const ModelDimensions& dims) {
  BertLike::set_dimensions(c, dims);
  c.max_position_embeddings += first_position(c);
}

std::vector<SizeConflict> Family<RobertaConfig>::size_conflicts(const RobertaConfig& c) {
  std::vector<SizeConflict> found = BertLike::size_conflicts(c);
  if (c.max_position_embeddings <= first_position(c)) {
    found.push_back({"max_position_embeddings",
                     fmt::format("{}, of which the first {} are none of a token; expected more",
                                 c.max_position_embeddings, first_position(c))});
  }
  return found;
}

TransformerSpec Family<RobertaConfig>::transformer(const RobertaConfig& c) {
  TransformerSpec spec = BertLike::transformer(c);
  spec.names.body = "roberta";
  spec.names.head = "lm_head.decoder";
  spec.head.transform =
      HeadTransform{.linear = "lm_head.dense", .norm = "lm_head.layer_norm", .activation = "gelu"};
  spec.head.bias = "lm_head";
  spec.classifiers.texts =
      ClassifierSpec{.transform = HeadTransform{.linear = "classifier.dense", .activation = "tanh"},
                     .scores = "classifier.out_proj",
                     .dropout = c.hidden_dropout_prob,
                     .drops_first = true};
  spec.classifiers.tokens = ClassifierSpec{
      .scores = "classifier", .dropout = c.hidden_dropout_prob, .row = ScoredRow::kEach};
  spec.tables.first_position = first_position(c);
  return spec;
}

void Family<RobertaConfig>::read_rest(const HfObject& object, RobertaConfig& /*c*/) {
  refuse_others(object);
}

}  // namespace ds
