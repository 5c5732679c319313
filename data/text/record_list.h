// A list of JSON in a field of a record (pure).
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

struct RecordItem {
  std::optional<double> number{};  // of a number, and 1 or 0 of true or false
  std::string word{};              // where it is none
};

// The items of a text that is such a list and nothing else; nothing for another text, and for a
// list with other things than numbers, truths and words in it.
std::optional<std::vector<RecordItem>> record_list(const std::string& text);

}  // namespace ds
