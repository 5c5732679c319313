// The classes, or numbers, that a model scores: of each text (sequence classification), or of each
// token (token classification). By which modules a family scores them is for the family to say
// (ClassifierSpecs in transformer_spec.h).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ds {

enum class ClassifierTask : int {
  kTexts,
  kTokens,
  // Whether the second of two texts goes on where the first one ends, while tokens of both are
  // masked: no class in the place of tokens, but one beside them (PairHead).
  kPairs,
};
struct EnumName;
std::span<const EnumName> names_of(ClassifierTask);

// What the scores of a text are, by transformers' words of problem_type.
enum class ClassifierProblem : int {
  kOneClass,        // it is of the class with the highest score; cross entropy
  kNumbers,         // they are numbers that it has; the mean of squared differences
  kSeveralClasses,  // it is of each class whose score is above 0; cross entropy of each class
};
std::span<const EnumName> names_of(ClassifierProblem);

struct Classifier {
  std::vector<std::string> labels;  // the classes' names, or the numbers', by their number
  // It drops of what is scored, as classifier_dropout of a config.json; unset: the family's.
  std::optional<double> dropout{};
  bool is_fresh = false;  // the folder that training starts from has no such head
  // pad_token_id of a config.json. transformers scores the last token that is another, so those at
  // the end of a text do not count where the last one is scored.
  std::optional<int64_t> padding{};
  ClassifierTask task = ClassifierTask::kTexts;
  ClassifierProblem problem = ClassifierProblem::kOneClass;  // of tokens there is no other
};

// What transformers takes the scores for if nothing says it: one alone for a number.
inline ClassifierProblem problem_of(const std::vector<std::string>& labels) {
  return labels.size() == 1 ? ClassifierProblem::kNumbers : ClassifierProblem::kOneClass;
}

// A head beside that of tokens, which tells of two texts whether the second goes on where the first
// one ends (next sentence prediction; Devlin et al., arXiv 1810.04805, section 3.1).
struct PairHead {
  bool is_fresh = false;  // the folder that training starts from has no such head
};
inline constexpr int64_t kPairClasses = 2;  // it goes on; it is from elsewhere

// What a configuration wants of a model: the classes that it is to score, and of what.
struct WantedClasses {
  std::vector<std::string> labels{};           // none: those that the model has
  std::optional<ClassifierTask> task{};        // unset: the model's, or that of texts
  std::optional<ClassifierProblem> problem{};  // unset: the model's, or problem_of()
};

}  // namespace ds
