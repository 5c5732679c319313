#include "train/labelled_data.h"

#include <fmt/format.h>

#include "config/elastic_options.h"
#include "core/status/error.h"

namespace ds {

void require_labelled(const DataSection& data, const ModelConfig& model) {
  if (!model.classifier) {
    if (!data.classification) return;
    throw ConfigError(
        fmt::format("data.classification: {} scores no classes; give their names in model.labels, "
                    "or remove the "
                    "section",
                    hf_model_class(model)));
  }
  const ClassificationConfig fields = data.classification.value_or(ClassificationConfig());
  if (fields.text == fields.label || fields.text_pair == fields.label) {
    throw ConfigError(fmt::format(
        "data.classification: \"{}\" is both a text and its class; name two fields", fields.label));
  }
  const std::string_view idle = data.masked_lm              ? "masked_lm"
                                : data.reset_attention_mask ? "reset_attention_mask"
                                : data.reset_position_ids   ? "reset_position_ids"
                                : data.eod_mask_loss        ? "eod_mask_loss"
                                : data.separator            ? "separator"
                                                            : "";
  if (idle.empty()) return;
  throw ConfigError(fmt::format(
      "data.{}: {} is trained on texts that are each of a class, one in a sample; remove it", idle,
      hf_model_class(model)));
}

LabelledForm labelled_form(const DataSection& data, const ModelConfig& model,
                           const Tokenizer& tokenizer, FileSystem& files) {
  const ClassificationConfig c = data.classification.value_or(ClassificationConfig());
  const ModelDimensions dims = dimensions(model);
  LabelledForm form{.text = c.text,
                    .label = c.label,
                    .text_pair = c.text_pair,
                    .labels = model.classifier->labels,
                    .length = data.sequence_length.value_or(dims.positions),
                    .frame = read_frame(files, data.tokenizer, tokenizer)};
  if (!form.text_pair) return form;
  form.pair_frame = read_pair_frame(files, data.tokenizer, tokenizer);
  const int64_t segments = transformer_spec(model).tables.segments;
  if (segments == 0) form.pair_frame.has_segments = false;  // nobody asks for them
  if (form.pair_frame.has_segments && segments < 2) {
    throw ConfigError(
        fmt::format("data.classification.text_pair: the tokenizer has two segments of a pair, and "
                    "the model {} (type_vocab_size)",
                    segments));
  }
  return form;
}

LabelledData open_labelled_data(const DataSection& data, const ModelConfig& model,
                                FileSystem& files) {
  std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(files, data.tokenizer);
  check_vocabulary(*tokenizer, data.tokenizer, dimensions(model).vocabulary);
  const LabelledForm form = labelled_form(data, model, *tokenizer, files);
  const auto sources = [&](const std::vector<std::string>& paths) {
    return std::vector{open_labelled_texts(files, paths, *tokenizer, form)};
  };
  SampleSets samples = open_samples(data, sources, [&](auto from) {
    return SampleSet(std::move(from), form.length + kNumbersBesideTokens, INT32_MAX);
  });
  return {.tokenizer = std::move(tokenizer),
          .samples = std::move(samples),
          .scored = transformer_spec(model).classifier->row};
}

std::string classes_conflict(const Config& config, const ModelConfig& model) {
  if (!model.classifier) return "";
  const std::string kind = hf_model_class(model);
  const auto refusal = [&](std::string_view key, std::string_view why) {
    return fmt::format("{}: {} is trained on {}; remove it", key, kind, why);
  };
  if (sequence_ranks(config) > 1) {
    return refusal("sequence_parallel_size", "samples that one rank has whole");
  }
  if (config.tensor_parallel.sequence_parallel) {
    return refusal("tensor_parallel.sequence_parallel",
                   "one row of a sample, which all ranks of a layer have");
  }
  if (config.curriculum_learning.enabled) {
    return refusal("curriculum_learning", "samples of one length");
  }
  const auto& offload = config.zero_optimization.offload_optimizer;
  if (offload && offload->super_offload) {
    return refusal("zero_optimization.offload_optimizer.super_offload",
                   "one row of a sample, and its updates begin before it is known how many there "
                   "are");
  }
  if (config.eigenvalue.enabled) return refusal("eigenvalue", "losses of one row of a sample");
  return "";
}

}  // namespace ds
