// The classes that a model scores whose samples each are of one (sequence classification). By which
// modules a family scores them is for the family to say (ClassifierSpec in transformer_spec.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

struct Classifier {
  std::vector<std::string> labels;  // the classes' names, by their number
  // It drops of what is scored, as classifier_dropout of a config.json; unset: the family's.
  std::optional<double> dropout{};
  bool is_fresh = false;  // the folder that training starts from has no such head
};

}  // namespace ds
