// What a record says of the scores of a model that tells numbers, or classes which hold or not,
// each by itself (pure).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/families/spec/classifier.h"

namespace ds {

// What the scores of samples are, and the labels' names.
struct ScoreLabels {
  ClassifierProblem problem = ClassifierProblem::kOneClass;
  std::vector<std::string> names{};
  // How many values a sample has; 0 where it has a class instead.
  int64_t values() const {
    return problem == ClassifierProblem::kOneClass ? 0 : static_cast<int64_t>(names.size());
  }
};

// One for each label: of numbers a number, or of several a list of them; of several classes the
// list of those that hold, by names as in class_of() or, of three classes and more, by their
// numbers from 0 on, a name alone, or a list with a number from 0 to 1 for each. `text`: a list of
// JSON, or what a word of JSON or a cell of a table is. DataError beginning with `where` for
// anything else.
std::vector<float> score_values(const ScoreLabels& labels, const std::string& text,
                                const std::string& where);

}  // namespace ds
