#include "data/score_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/status/error.h"
#include "core/text/number_in.h"
#include "core/values/index.h"
#include "data/class_names.h"
#include "data/text/record_list.h"

namespace ds {
namespace {

using Items = std::vector<RecordItem>;

[[noreturn]] void refuse(const std::string& where, const std::string& what,
                         const std::string& expected) {
  throw DataError(fmt::format("{}: the label is {}, expected {}", where, what, expected));
}

// How a message shows what a record has.
std::string shown(const std::string& text) {
  constexpr size_t kMost = 60;
  return text.size() > kMost ? fmt::format("\"{}...\"", text.substr(0, kMost))
                             : fmt::format("\"{}\"", text);
}

float number_of(double number, const std::string& where) {
  if (!(std::abs(number) <= double{std::numeric_limits<float>::max()})) {
    refuse(where, fmt::format("{}", number), "a finite number of 32 bits");
  }
  return static_cast<float>(number);
}

bool are_numbers(const Items& list) {
  return std::ranges::all_of(list, [](const RecordItem& item) { return item.number.has_value(); });
}

std::vector<float> numbers_of(const Items& list, const std::string& where) {
  std::vector<float> numbers;
  for (const RecordItem& item : list) numbers.push_back(number_of(*item.number, where));
  return numbers;
}

// The classes of a list that hold.
std::vector<float> named_classes(const ScoreLabels& labels, const Items& list,
                                 const std::string& where) {
  std::vector<float> holds(labels.names.size(), 0.0F);
  for (const RecordItem& item : list) {
    if (item.number) refuse(where, "a list of names and numbers", "names alone");
    const int32_t label = class_of(labels.names, item.word, where);
    if (nth(holds, label) != 0) {
      refuse(where, fmt::format("a list with \"{}\" twice", nth(labels.names, label)),
             "each class once");
    }
    nth(holds, label) = 1.0F;
  }
  return holds;
}

// The classes whose numbers a list has; nothing if it is no such list. Of two classes, [0, 1] could
// be either kind, so that nothing is a list of numbers there.
std::optional<std::vector<float>> numbered_classes(const std::vector<float>& numbers,
                                                   size_t count) {
  constexpr size_t kFewest = 3;
  if (count < kFewest) return std::nullopt;
  std::vector<float> holds(count, 0.0F);
  for (const float number : numbers) {
    const bool is_class =
        number >= 0 && number < static_cast<float>(count) && number == std::floor(number);
    if (!is_class) return std::nullopt;
    float& held = holds[static_cast<size_t>(number)];
    if (held != 0) return std::nullopt;
    held = 1.0F;
  }
  return holds;
}

std::vector<float> several_classes(const ScoreLabels& labels, const Items& list,
                                   const std::string& where) {
  if (list.empty() || !are_numbers(list)) return named_classes(labels, list, where);
  const size_t count = labels.names.size();
  const std::string expected = fmt::format(
      "a number from 0 to 1 for each of the {} classes, or the names{} of those that hold", count,
      count > 2 ? " or the numbers" : "");
  std::vector<float> numbers = numbers_of(list, where);
  const auto is_share = [](float number) { return number >= 0 && number <= 1; };
  if (numbers.size() == count && std::ranges::all_of(numbers, is_share)) return numbers;
  if (auto holds = numbered_classes(numbers, count)) return *std::move(holds);
  if (numbers.size() != count) {
    refuse(where, fmt::format("a list of {} numbers", numbers.size()), expected);
  }
  refuse(where, fmt::format("{}", *std::ranges::find_if_not(numbers, is_share)), expected);
}

}  // namespace

std::vector<float> score_values(const ScoreLabels& labels, const std::string& text,
                                const std::string& where) {
  const size_t count = labels.names.size();
  const bool of_numbers = labels.problem == ClassifierProblem::kNumbers;
  Items list;
  if (text.starts_with('[')) {
    std::optional<Items> read = record_list(text);
    if (!read) refuse(where, shown(text), "a list of JSON, of numbers or of names");
    list = std::move(*read);
  } else if (of_numbers) {
    list = {{.number = number_in<double>(text)}};
  } else {
    list = {{.word = text}};
  }
  if (!of_numbers) return several_classes(labels, list, where);
  if (list.size() != count || !are_numbers(list)) {
    refuse(where, shown(text),
           count == 1 ? std::string("a number") : fmt::format("a list of {} numbers", count));
  }
  return numbers_of(list, where);
}

}  // namespace ds
