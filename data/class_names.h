// Names of classes (pure).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

// The class that a value of the data is: by its name, or else its number. Where a name is a
// numeral, numbers are names alone: "1" may be the first class. DataError beginning with `where`
// for one that is not among the labels.
int32_t class_of(const std::vector<std::string>& labels, const std::string& value,
                 const std::string& where);

// For each class, that of the tokens of a word which are not its first: I-X of B-X where there is
// such a class, else the class itself, as transformers' run_ner has it.
std::vector<int32_t> inner_classes(const std::vector<std::string>& labels);

}  // namespace ds
