// When some fields exist (Visitor::enter_condition) or a section is off, taken apart (pure): "type
// is Adam or AdamW" has a key and the values that it may have.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace ds {

struct Condition {
  explicit Condition(std::string_view text) {
    constexpr std::string_view kIs = " is ", kOr = " or ";
    const size_t is = text.find(kIs);
    key = text.substr(0, is);
    for (text.remove_prefix(is + kIs.size());;) {
      const size_t end = text.find(kOr);
      values.push_back(text.substr(0, end));
      if (end == std::string_view::npos) return;
      text.remove_prefix(end + kOr.size());
    }
  }
  bool has(std::string_view value) const {
    return std::ranges::find(values, value) != values.end();
  }
  // Whether the key has some of its values only in this build, and none of these; `only` is empty
  // where it has them all.
  template <class Names>
  bool is_missing(const Names& only) const {
    return !only.empty() &&
           std::ranges::none_of(only, [&](std::string_view name) { return has(name); });
  }

  std::string_view key;
  std::vector<std::string_view> values;
};

}  // namespace ds
