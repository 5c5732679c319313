#include "train/samples/labelled_data.h"

#include <fmt/format.h>

#include "config/elastic_options.h"
#include "core/status/error.h"
#include "data/labelled_texts.h"
#include "data/sentence_pairs.h"
#include "data/tagged_words.h"
#include "data/tokenizer/tokenizer_frame.h"

namespace ds {

bool scores_tokens(const ModelConfig& model) {
  return model.classifier && model.classifier->task == ClassifierTask::kTokens;
}

namespace {

ScoreLabels score_labels(const ModelConfig& model) {
  const Classifier& classifier = model.classifier.value();
  return {.problem = classifier.problem, .names = classifier.labels};
}

}  // namespace

ScoredSamples scored_samples(const ModelConfig& model) {
  if (model.pairs) return {.is_pair = true};
  return {.row = classifier_spec(model)->row, .values = score_labels(model).values()};
}

namespace {

// A section that is for models of another task.
void require_section(std::string_view key, bool is_given, bool is_for_model,
                     const ModelConfig& model) {
  if (!is_given || is_for_model) return;
  if (!model.classifier) {
    throw ConfigError(
        fmt::format("{}: {} scores no classes; give their names in model.labels, or remove the "
                    "section",
                    key, hf_model_class(model)));
  }
  throw ConfigError(fmt::format("{}: {} scores {}; remove the section, or see model.task", key,
                                hf_model_class(model), scored_words(model.classifier->task)));
}

void require_distinct_fields(const DataSection& data, const ModelConfig& model) {
  if (scores_tokens(model)) {
    const auto fields = data.token_classification.value_or(TokenClassificationConfig());
    if (fields.tokens != fields.labels) return;
    throw ConfigError(
        fmt::format("data.token_classification: \"{}\" is both the words and their classes; name "
                    "two fields",
                    fields.labels));
  }
  const ClassificationConfig fields = data.classification.value_or(ClassificationConfig());
  if (fields.text != fields.label && fields.text_pair != fields.label) return;
  throw ConfigError(fmt::format(
      "data.classification: \"{}\" is both a text and its class; name two fields", fields.label));
}

// The frame of two texts in one sample, by which `key` is to make some.
PairFrame pair_frame(std::string_view key, const DataSection& data, const ModelConfig& model,
                     const Tokenizer& tokenizer, FileSystem& files) {
  PairFrame frame = read_pair_frame(files, data.tokenizer, tokenizer);
  const int64_t segments = transformer_spec(model).tables.segments;
  if (segments == 0) frame.has_segments = false;  // nobody asks for them
  if (frame.has_segments && segments < 2) {
    throw ConfigError(
        fmt::format("{}: the tokenizer has two segments of a pair, and the model {} "
                    "(type_vocab_size)",
                    key, segments));
  }
  return frame;
}

PairForm pair_form(const DataSection& data, const ModelConfig& model, const SampleLength& length,
                   const Tokenizer& tokenizer, FileSystem& files) {
  const NextSentenceConfig c = data.next_sentence.value_or(NextSentenceConfig());
  return {.field = data.field,
          .length = length,
          .frame = pair_frame("data.next_sentence", data, model, tokenizer, files),
          .rules = {.random_prob = c.random_next_prob, .short_prob = c.short_seq_prob}};
}

LabelledForm labelled_form(const DataSection& data, const ModelConfig& model,
                           const SampleLength& length, const Tokenizer& tokenizer,
                           FileSystem& files) {
  const ClassificationConfig c = data.classification.value_or(ClassificationConfig());
  LabelledForm form{.text = c.text,
                    .label = c.label,
                    .text_pair = c.text_pair,
                    .labels = score_labels(model),
                    .length = length,
                    .frame = read_frame(files, data.tokenizer, tokenizer)};
  if (classifier_spec(model)->row == ScoredRow::kLast) form.padding = model.classifier->padding;
  if (!form.text_pair) return form;
  form.pair_frame = pair_frame("data.classification.text_pair", data, model, tokenizer, files);
  return form;
}

TaggedForm tagged_form(const DataSection& data, const ModelConfig& model,
                       const SampleLength& length, const Tokenizer& tokenizer, FileSystem& files) {
  const auto c = data.token_classification.value_or(TokenClassificationConfig());
  return {.fields = {.words = c.tokens, .tags = c.labels},
          .labels = model.classifier->labels,
          .length = length,
          .frame = read_frame(files, data.tokenizer, tokenizer),
          .counted = c.label_all_tokens ? CountedTokens::kAllOfWord : CountedTokens::kFirstOfWord,
          .before = c.add_prefix_space ? BeforeWords::kSpace : BeforeWords::kNothing};
}

}  // namespace

void require_labelled(const DataSection& data, const ModelConfig& model) {
  const bool of_tokens = scores_tokens(model);
  require_section("data.classification", data.classification.has_value(),
                  model.classifier && !of_tokens, model);
  require_section("data.token_classification", data.token_classification.has_value(), of_tokens,
                  model);
  if (data.next_sentence && !model.pairs) {
    throw ConfigError(
        fmt::format("data.next_sentence: {} tells of no pairs of texts; give model.task "
                    "next_sentence_prediction, or remove the section",
                    hf_model_class(model)));
  }
  if (!model.classifier && !model.pairs) return;
  if (model.classifier) require_distinct_fields(data, model);
  const std::string_view idle = data.masked_lm && !model.pairs ? "masked_lm"
                                : data.reset_attention_mask    ? "reset_attention_mask"
                                : data.reset_position_ids      ? "reset_position_ids"
                                : data.eod_mask_loss           ? "eod_mask_loss"
                                : data.separator               ? "separator"
                                : data.eod_token_id            ? "eod_token_id"
                                : data.field != DataSection().field && !model.pairs ? "field"
                                                                                    : "";
  if (idle.empty()) return;
  if (idle == "field") {
    throw ConfigError(fmt::format("data.field: {} names the fields of {}; remove it",
                                  of_tokens ? "data.token_classification" : "data.classification",
                                  hf_model_class(model)));
  }
  throw ConfigError(fmt::format("data.{}: {} is trained on {}, one in a sample; remove it", idle,
                                hf_model_class(model),
                                model.pairs ? "pairs of texts"
                                : of_tokens ? "sentences of words that are each of a class"
                                            : "texts that are each of a class"));
}

LabelledReader::LabelledReader(const DataSection& data, const ModelConfig& model, FileSystem& files,
                               const std::string& length_key)
    : tokenizer_(make_tokenizer(files, data.tokenizer)) {
  check_vocabulary(*tokenizer_, data.tokenizer, dimensions(model).vocabulary);
  const std::shared_ptr<const Tokenizer> tokenizer = tokenizer_;
  const SampleLength length(data.sequence_length.value_or(dimensions(model).positions), length_key);
  if (model.pairs) {
    numbers_ = numbers_of_labelled(length.tokens, 0);
    const PairForm form = pair_form(data, model, length, *tokenizer, files);
    open_ = [form, tokenizer, &files](std::span<const std::string> paths) {
      return open_sentence_pairs(files, paths, *tokenizer, form);
    };
  } else if (scores_tokens(model)) {
    numbers_ = numbers_of_tagged(length.tokens);
    const TaggedForm form = tagged_form(data, model, length, *tokenizer, files);
    open_ = [form, tokenizer, &files](std::span<const std::string> paths) {
      return open_tagged_words(files, paths, *tokenizer, form);
    };
  } else {
    numbers_ = numbers_of_labelled(length.tokens, scored_samples(model).values);
    const LabelledForm form = labelled_form(data, model, length, *tokenizer, files);
    open_ = [form, tokenizer, &files](std::span<const std::string> paths) {
      return open_labelled_texts(files, paths, *tokenizer, form);
    };
  }
}

LabelledData open_labelled_data(const DataSection& data, const ModelConfig& model,
                                FileSystem& files) {
  const LabelledReader reader(data, model, files);
  return {.tokenizer = reader.tokenizer(),
          .samples = open_record_samples(data, reader),
          .scored = scored_samples(model)};
}

std::string classes_conflict(const Config& config, const ModelConfig& model) {
  if (!model.classifier && !model.pairs) return "";
  const std::string kind = hf_model_class(model);
  const auto refusal = [&](std::string_view key, std::string_view why) {
    return fmt::format("{}: {} is trained on {}; remove it", key, kind, why);
  };
  if (sequence_ranks(config) > 1) {
    return refusal("sequence_parallel_size", "samples that one rank has whole");
  }
  if (config.tensor_parallel.sequence_parallel) {
    return refusal("tensor_parallel.sequence_parallel",
                   "rows of samples that all ranks of a layer have");
  }
  if (config.curriculum_learning.enabled) {
    return refusal("curriculum_learning", "samples of one length");
  }
  if (model.pairs) return "";  // whose tokens' losses are uneven
  const auto& offload = config.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    return refusal("zero_optimization.offload_optimizer.super_offload",
                   "the rows of a sample that have a class, and its updates begin before it is "
                   "known how many there are");
  }
  if (config.eigenvalue.enabled)
    return refusal("eigenvalue", "losses of the rows that have a class");
  return "";
}

}  // namespace ds
