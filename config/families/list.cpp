#include "config/families/list.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "config/reader/convert.h"
#include "config/reader/fields.h"
#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {
namespace {

// What `ask`, given a default of each family, answers, in the order of ModelConfig.
template <class Ask>
auto ask_each(Ask ask) {
  return std::apply([&](const auto&... config) { return std::vector{ask(config)...}; },
                    FamilyConfigs{});
}

template <class Config>
constexpr Family<Config> family_of(const Config& /*config*/) {
  return {};
}

std::string table_of(const TransformerSpec& spec) {
  return fmt::format("{}.{}.weight", spec.names.body, spec.names.table);
}

// Refuses what a reader of the model section would.
class FieldCheck final : public Visitor {
 public:
  explicit FieldCheck(std::string_view where) : where_(where) {}
  void on_field(const Field& field) override {
    const Value value = field_value(field);
    const bool not_finite =
        value.kind() == Value::Kind::kNumber && !std::isfinite(value.as_number());
    if (not_finite || store(value, field) != Stored::kDone) {
      throw ConfigError(fmt::format("{}{}: {}", where_, field.key, refusal(value, field)));
    }
    const auto& known = field.spec.only;
    if (known.empty() || std::ranges::find(known, value.as_string()) != known.end()) return;
    throw Unsupported(fmt::format("{}{}: \"{}\", this build has \"{}\"", where_, field.key,
                                  value.as_string(), fmt::join(known, "\", \"")));
  }
  void on_section(const Section& section) override {
    if (!section.present()) return;
    const std::string inside = fmt::format("{}{}.", where_, section.key);
    FieldCheck visitor(inside);
    section.walk(visitor);
  }
  void on_collection(const Collection&) override {}

 private:
  const std::string_view where_;
};

}  // namespace

std::vector<std::string_view> built_families() {
  return ask_each([](const auto& config) { return family_of(config).kName; });
}

std::span<const EnumName> names_of(ModelFamily) {
  static const std::vector<EnumName> names = [] {
    std::vector<EnumName> out;
    for (const std::string_view name : built_families()) {
      out.push_back({name, static_cast<int>(out.size())});
    }
    out.push_back({"moe_gpt", static_cast<int>(ModelFamily::kMoeGpt)});
    out.push_back({"resnet", static_cast<int>(ModelFamily::kResNet)});
    return out;
  }();
  return names;
}

std::span<const EnumName> names_of(ClassifierTask) {
  static constexpr EnumName kNames[] = {
      {"sequence_classification", static_cast<int>(ClassifierTask::kTexts)},
      {"token_classification", static_cast<int>(ClassifierTask::kTokens)},
      {"next_sentence_prediction", static_cast<int>(ClassifierTask::kPairs)},
  };
  return kNames;
}

std::span<const EnumName> names_of(ClassifierProblem) {
  static constexpr EnumName kNames[] = {
      {"single_label_classification", static_cast<int>(ClassifierProblem::kOneClass)},
      {"regression", static_cast<int>(ClassifierProblem::kNumbers)},
      {"multi_label_classification", static_cast<int>(ClassifierProblem::kSeveralClasses)},
  };
  return kNames;
}

std::string_view family_name(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).kName; }, config);
}

ModelDimensions dimensions(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).dimensions(c); }, config);
}

ModelConfig with_dimensions(const ModelConfig& config, const ModelDimensions& dims) {
  ModelConfig other = config;
  std::visit([&](auto& c) { family_of(c).set_dimensions(c, dims); }, other);
  return other;
}

namespace {

TransformerSpec family_spec(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).transformer(c); }, config);
}

const std::optional<ClassifierSpec>& spec_of(const TransformerSpec& spec, ClassifierTask task) {
  switch (task) {
    case ClassifierTask::kTexts:
      return spec.classifiers.texts;
    case ClassifierTask::kTokens:
      return spec.classifiers.tokens;
    case ClassifierTask::kPairs:
      break;
  }
  return spec.classifiers.pairs;
}

// The head that scores classes in place of tokens.
HeadSpec classifier_head(const ClassifierSpec& spec, const Classifier& classifier) {
  const double dropout = spec.dropout ? classifier.dropout.value_or(*spec.dropout) : 0;
  return {.transform = spec.transform,
          .bias = spec.has_bias ? spec.scores : std::string_view(),
          .classes = narrow<int64_t>(classifier.labels.size()),
          .problem = classifier.problem,
          .pools_mean = spec.row == ScoredRow::kMean,
          .deviation = spec.deviation,
          .dropout_before = spec.drops_first ? dropout : 0,
          .dropout_behind = dropout};
}

PairHeadSpec pair_head(const ModelConfig& config, const std::optional<ClassifierSpec>& spec) {
  if (!spec) {
    throw Unsupported(fmt::format("model: this build has no \"{}\" that scores {}",
                                  family_name(config), scored_words(ClassifierTask::kPairs)));
  }
  return {.head = {.transform = spec->transform,
                   .bias = spec->has_bias ? spec->scores : std::string_view(),
                   .classes = kPairClasses,
                   .deviation = spec->deviation},
          .scores = spec->scores};
}

}  // namespace

std::string_view scored_words(ClassifierTask task) {
  switch (task) {
    case ClassifierTask::kTexts:
      return "classes of texts";
    case ClassifierTask::kTokens:
      return "classes of tokens";
    case ClassifierTask::kPairs:
      break;
  }
  return "whether one text goes on another";
}

TransformerSpec transformer_spec(const ModelConfig& config) {
  TransformerSpec spec = family_spec(config);
  if (config.pairs) spec.pair_head = pair_head(config, spec.classifiers.pairs);
  if (!config.classifier) return spec;
  const std::optional<ClassifierSpec>& scores = spec_of(spec, config.classifier->task);
  if (!scores) {
    throw Unsupported(fmt::format("model: this build has no \"{}\" that scores {}",
                                  family_name(config), scored_words(config.classifier->task)));
  }
  spec.head = classifier_head(*scores, *config.classifier);
  spec.names.head = scores->scores;
  spec.factors.logits = 1;
  return spec;
}

bool has_classifier(const ModelConfig& config, ClassifierTask task) {
  return spec_of(family_spec(config), task).has_value();
}

std::optional<ClassifierSpec> classifier_spec(const ModelConfig& config) {
  if (!config.classifier) return std::nullopt;
  return spec_of(family_spec(config), config.classifier->task);
}

bool is_causal(const ModelConfig& config) {
  return transformer_spec(config).attention_kind == AttentionKind::kCausal;
}

bool predicts_next(const ModelConfig& config) { return !config.classifier && is_causal(config); }

void require_causal(const ModelConfig& config, std::string_view what) {
  if (predicts_next(config)) return;
  if (config.classifier) {
    throw Unsupported(fmt::format("{}: {} scores {}, and predicts no token", what,
                                  hf_model_class(config), scored_words(config.classifier->task)));
  }
  throw Unsupported(
      fmt::format("{}: \"{}\" sees both sides of a token, and predicts none that comes next", what,
                  family_name(config)));
}

HfClasses hf_classes(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).kClasses; }, config);
}

std::string hf_model_class(const ModelConfig& config) {
  const HfClasses classes = hf_classes(config);
  if (config.pairs) return classifier_class(classes, ClassifierTask::kPairs);
  if (!config.classifier) return std::string(classes.model);
  return classifier_class(classes, config.classifier->task);
}

std::string classifier_class(const HfClasses& classes, ClassifierTask task) {
  if (task == ClassifierTask::kPairs) return std::string(classes.with_other_heads);
  std::string_view stem = classes.body;
  stem.remove_suffix(std::string_view("Model").size());
  const bool of_texts = task == ClassifierTask::kTexts;
  return fmt::format("{}For{}Classification", stem, of_texts ? "Sequence" : "Token");
}

std::vector<std::string> classifier_modules(const ModelConfig& config) {
  if (!config.classifier && !config.pairs) return {};
  const TransformerSpec spec = transformer_spec(config);
  const HeadSpec& head = config.pairs ? spec.pair_head->head : spec.head;
  std::vector<std::string> modules{
      std::string(config.pairs ? spec.pair_head->scores : spec.names.head)};
  if (!head.transform) return modules;
  for (const std::string_view name : {head.transform->linear, head.transform->norm}) {
    if (!name.empty()) modules.emplace_back(name);
  }
  return modules;
}

std::string_view layers_key(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).kLayersKey; }, config);
}

std::string block_list(const ModelConfig& config) {
  const TransformerSpec spec = transformer_spec(config);
  return fmt::format("{}.{}", spec.names.body, spec.names.blocks);
}

std::string token_table(const ModelConfig& config) { return table_of(transformer_spec(config)); }

bool ties_embeddings(const ModelConfig& config) {
  if (config.classifier) return false;
  return std::visit([](const auto& c) { return c.tie_word_embeddings; }, config);
}

std::vector<std::string_view> model_bodies() {
  static const auto bodies =
      ask_each([](const auto& c) { return family_of(c).transformer(c).names.body; });
  return bodies;
}

std::vector<std::string_view> model_heads() {
  static const auto heads =
      ask_each([](const auto& c) { return family_of(c).transformer(c).names.head; });
  return heads;
}

bool is_token_table(std::string_view parameter) {
  static const auto tables =
      ask_each([](const auto& c) { return table_of(family_of(c).transformer(c)); });
  return std::ranges::find(tables, parameter) != tables.end();
}

std::vector<SizeConflict> size_conflicts(const ModelConfig& config) {
  return std::visit([](const auto& c) { return family_of(c).size_conflicts(c); }, config);
}

// A number below 1 is out of its own range.
void add_unless_divides(std::vector<SizeConflict>& to, std::string_view key, int64_t part,
                        int64_t whole, std::string_view of) {
  if (part < 1 || whole % part == 0) return;
  to.push_back({key, fmt::format("{} does not divide {} = {}", part, of, whole)});
}

void check(const ModelConfig& config, std::string_view where) {
  FieldCheck visitor(where);
  std::visit([&](auto family) { fields(visitor, family); }, config);
  const std::vector<SizeConflict> found = size_conflicts(config);
  if (config.classifier || config.pairs) transformer_spec(config);
  if (found.empty()) return;
  throw ConfigError(fmt::format("{}{}: {}", where, found.front().key, found.front().why));
}

}  // namespace ds
