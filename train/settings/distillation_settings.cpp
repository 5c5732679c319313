#include "train/settings/distillation_settings.h"

#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/sections/sequence_split.h"
#include "config/sections/split/tensor.h"
#include "model/functions/functions.h"
#include "model/parallel/tensor_shard.h"

namespace ds {
namespace {

constexpr std::string_view kTeacher = "teacher";

std::string words_of(const ModelConfig& model) {
  return fmt::format("a {} of {} blocks and {} tokens", hf_model_class(model),
                     dimensions(model).layers, dimensions(model).vocabulary);
}

// What of both is told about a token, or a text.
std::string other_answers(const ModelConfig& model, const ModelConfig& teacher) {
  const auto answers = [](const ModelConfig& one) -> std::string {
    if (one.classifier) {
      return fmt::format("{}", scored_words(one.classifier->task));
    }
    if (one.pairs) return "masked tokens and pairs of texts";
    return predicts_next(one) ? "next tokens" : "masked tokens";
  };
  if (answers(model) != answers(teacher)) {
    return fmt::format("{}: it tells {}, and the model {}; expected one that tells the same",
                       kTeacher, answers(teacher), answers(model));
  }
  if (model.pairs) {
    return fmt::format("{}: answers about pairs of texts are not learnt from it", kTeacher);
  }
  if (!model.classifier) return "";
  const Classifier &own = *model.classifier, &other = *teacher.classifier;
  if (own.problem != ClassifierProblem::kOneClass) {
    return fmt::format(
        "{}: only classes of which one is right are learnt from it, and no numbers "
        "or classes that hold by themselves",
        kTeacher);
  }
  if (own.labels != other.labels) {
    return fmt::format("{}: its classes are {}, and the model's {}", kTeacher,
                       fmt::join(other.labels, ", "), fmt::join(own.labels, ", "));
  }
  return "";
}

std::string other_sizes(const Config& config, const ModelConfig& model, const ModelConfig& teacher,
                        int64_t length) {
  const ModelDimensions own = dimensions(model), other = dimensions(teacher);
  if (length > other.positions) {
    return fmt::format(
        "{}: samples have {} tokens, and it has {} positions; give a shorter "
        "data.sequence_length",
        kTeacher, length, other.positions);
  }
  const int64_t segments = transformer_spec(model).tables.segments,
                its = transformer_spec(teacher).tables.segments;
  if (its > 0 && its < segments) {
    return fmt::format("{}: it tells {} kinds of segments apart, and the model {}", kTeacher, its,
                       segments);
  }
  const bool has_pairs = config.data.classification && config.data.classification->text_pair;
  if (its > segments && has_pairs) {
    return fmt::format(
        "{}: it tells the two texts of a pair apart by segments, which the model does not have, so "
        "that nobody makes them; remove data.classification.text_pair",
        kTeacher);
  }
  if (const std::string why = sequence_conflict(other, length, sequence_sharing(config));
      !why.empty()) {
    return fmt::format("{}: sequence_parallel_size: {}", kTeacher, why);
  }
  const int64_t ranks = tensor_split(config).ranks;
  if (ranks == 1) return "";
  if (const std::string why = tensor_conflict(teacher, tensor_split(config)); !why.empty()) {
    return fmt::format("{}: {}: {}", kTeacher, tensor_key(config), why);
  }
  if (own.vocabulary != other.vocabulary && !model.classifier) {
    return fmt::format(
        "{}: tensor-parallel ranks share its {} tokens as they share the model's, "
        "which has {}; expected the same number",
        kTeacher, other.vocabulary, own.vocabulary);
  }
  const int count = static_cast<int>(ranks);
  if (key_replicas(own, count) != key_replicas(other, count)) {
    return fmt::format(
        "{}: {} tensor-parallel ranks share its {} heads of keys in another way than "
        "the model's {}",
        kTeacher, ranks, other.kv_heads, own.kv_heads);
  }
  return "";
}

std::string other_blocks(const Config& config, const ModelConfig& model,
                         const ModelConfig& teacher) {
  const std::vector<MatchedBlocks> blocks = matched_blocks(*config.train.distillation);
  if (blocks.empty()) return "";
  const ModelDimensions own = dimensions(model), other = dimensions(teacher);
  for (const MatchedBlocks& pair : blocks) {
    if (pair.own <= own.layers && pair.teacher <= other.layers) continue;
    return fmt::format("layers: {} of the model and {} of the teacher, which have {} and {} blocks",
                       pair.own, pair.teacher, own.layers, other.layers);
  }
  if (own.width != other.width) {
    return fmt::format(
        "layers: the model's states are {} wide, and the teacher's {}; expected the "
        "same width",
        own.width, other.width);
  }
  if (config.tensor_parallel.sequence_parallel) {
    return "layers: excludes tensor_parallel.sequence_parallel, with which no rank has all rows of "
           "a state";
  }
  return "";
}

}  // namespace

std::vector<std::string_view> DistillationOptions::figures() const {
  std::vector<std::string_view> names{kDivergenceFigure};
  if (!blocks.empty()) names.push_back(kHiddenFigure);
  return names;
}

std::optional<DistillationOptions> distillation_options(const TrainSection& train) {
  if (!train.distillation) return std::nullopt;
  const DistillationConfig& c = *train.distillation;
  return DistillationOptions{
      .rule = {.alpha = c.alpha, .beta = c.beta, .temperature = c.temperature},
      .blocks = matched_blocks(c),
      .blocks_weight = c.layers_weight,
      .last_step = c.until_step.value_or(INT64_MAX)};
}

std::string teacher_conflict(const Config& config, const ModelConfig& model, int64_t length) {
  if (!config.train.distillation || model.teacher == nullptr) return "";
  const ModelConfig& teacher = model.teacher->model;
  for (const std::string& why :
       {other_answers(model, teacher), other_sizes(config, model, teacher, length),
        other_blocks(config, model, teacher)}) {
    if (!why.empty()) return fmt::format("{} ({})", why, words_of(teacher));
  }
  return "";
}

std::vector<std::string> teacher_notes(const ModelConfig& model) {
  if (model.teacher == nullptr || model.classifier) return {};
  const int64_t own = dimensions(model).vocabulary;
  const int64_t other = dimensions(model.teacher->model).vocabulary;
  if (own == other) return {};
  return {
      own < other
          ? fmt::format("train.distillation.teacher: of its {} tokens the last {} are left out, "
                        "which the model does not have",
                        other, other - own)
          : fmt::format("train.distillation.teacher: it knows {} of the model's {} tokens, and "
                        "gives the others no probability",
                        other, own)};
}

}  // namespace ds
