#include "data/class_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"

namespace ds {
namespace {

bool is_numeral(const std::string& text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

int32_t class_of(const std::vector<std::string>& labels, const std::string& value,
                 const std::string& where) {
  const auto named = std::ranges::find(labels, value);
  if (named != labels.end()) {
    if (std::find(named + 1, labels.end(), value) == labels.end()) {
      return narrow<int32_t>(named - labels.begin());
    }
    throw DataError(fmt::format(
        "{}: \"{}\" is the name of more than one class of the model; give the class by its number, "
        "or the classes other names (id2label of its config.json)",
        where, value));
  }
  if (value == "-100") {
    throw DataError(fmt::format(
        "{}: -100, which transformers gives tokens that do not count, is no class: give each text "
        "or word its class; of the tokens of a word the first counts by itself",
        where));
  }
  const int32_t number = number_in<int32_t>(value).value_or(-1);
  const bool is_class = number >= 0 && number < std::ssize(labels);
  const bool has_numerals = std::ranges::any_of(labels, is_numeral);
  if (is_class && !has_numerals) return number;
  throw DataError(fmt::format("{}: the class \"{}\" is none of the model's, which are \"{}\"{}",
                              where, value, fmt::join(labels, "\", \""),
                              has_numerals ? "" : fmt::format(" (or 0 to {})", labels.size() - 1)));
}

std::vector<int32_t> inner_classes(const std::vector<std::string>& labels) {
  std::vector<int32_t> inner;
  for (const std::string& label : labels) {
    const std::string wanted = label.starts_with("B-") ? "I-" + label.substr(2) : label;
    const auto found = std::ranges::find(labels, wanted);
    const auto own = narrow<int32_t>(std::ssize(inner));
    inner.push_back(found == labels.end() ? own : narrow<int32_t>(found - labels.begin()));
  }
  return inner;
}

}  // namespace ds
