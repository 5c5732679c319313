#include "cli/typing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/other_words.h"
#include "cli/verb.h"
#include "cli/verb_app.h"
#include "config/reader/nearest.h"

namespace ds {
namespace {

std::string or_nearest(const std::string& nearest, std::string_view before) {
  return nearest.empty() ? "" : fmt::format("; did you mean {}{}?", before, nearest);
}

// Without DeepSpeed's spellings with underscores: they are understood, and not taught.
std::vector<std::string> long_names(const VerbApp& app) {
  std::vector<std::string> names;
  for (const VerbOption& option : app.options()) {
    for (const std::string& name : option.long_names()) {
      if (name.find('_') == std::string::npos) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

std::optional<std::string> unknown_option(const VerbApp& app,
                                          const std::vector<std::string>& words) {
  const auto found = std::ranges::find_if(
      words, [](const std::string& word) { return word.size() > 1 && word.starts_with('-'); });
  if (found == words.end()) return std::nullopt;
  const std::string option = found->substr(0, found->find('='));
  std::string bare = option.substr(std::min(option.find_first_not_of('-'), option.size()));
  std::ranges::replace(bare, '_', '-');
  if (const std::optional<std::string> instead = instead_of_option(bare)) {
    return fmt::format("{} is no option of `{}`: {}", option, app.name(), *instead);
  }
  return fmt::format("{} is no option of `{}`{}", option, app.name(),
                     or_nearest(nearest_name(bare, long_names(app)), "--"));
}

std::string unknown_choice(const std::string& value, const std::vector<std::string>& choices) {
  return fmt::format("'{}' is none of {}{}", value, fmt::join(choices, ", "),
                     or_nearest(nearest_name(value, choices), ""));
}

std::string unknown_verb(const std::string& word) {
  std::vector<std::string> names;
  for (const Verb& verb : verbs()) {
    if (verb.listing == Listing::kListed) names.emplace_back(verb.name);
  }
  return fmt::format("'{}' is neither a verb nor a file{} (see `dslaunch --help`)", word,
                     or_nearest(nearest_name(word, names), "the verb "));
}

bool is_written_as_verb(const std::string& word) {
  constexpr size_t kLongest = 24;
  return !word.empty() && word.size() <= kLongest && !word.starts_with('-') &&
         std::ranges::all_of(word,
                             [](char c) { return (c >= 'a' && c <= 'z') || c == '-' || c == '_'; });
}

}  // namespace ds
