// The classes that a model scores: of each text (sequence classification), or of each token (token
// classification). By which modules a family scores them is for the family to say
// (ClassifierSpecs in transformer_spec.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds {

enum class ClassifierTask : int { kTexts, kTokens };
struct EnumName;
std::span<const EnumName> names_of(ClassifierTask);

struct Classifier {
  std::vector<std::string> labels;  // the classes' names, by their number
  // It drops of what is scored, as classifier_dropout of a config.json; unset: the family's.
  std::optional<double> dropout{};
  bool is_fresh = false;  // the folder that training starts from has no such head
  // pad_token_id of a config.json. transformers scores the last token that is another, so those at
  // the end of a text do not count where the last one is scored.
  std::optional<int64_t> padding{};
  ClassifierTask task = ClassifierTask::kTexts;
};

// What a configuration wants of a model: the classes that it is to score, and of what.
struct WantedClasses {
  std::vector<std::string> labels{};     // none: those that the model has
  std::optional<ClassifierTask> task{};  // unset: the model's, or that of texts
};

}  // namespace ds
