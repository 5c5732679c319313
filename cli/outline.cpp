#include "cli/outline.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string_view>

#include "cli/verb_app.h"

namespace ds {
namespace {

// The type has behind it what checks say of themselves: "TEXT:{auto,never}".
std::vector<std::string> choices_in(const std::string& type) {
  const size_t open = type.find('{');
  const size_t close = type.find('}', open);
  std::vector<std::string> choices;
  if (open == std::string::npos || close == std::string::npos) return choices;
  std::istringstream words(type.substr(open + 1, close - open - 1));
  for (std::string word; std::getline(words, word, ',');) choices.push_back(word);
  return choices;
}

struct TypeKind {
  std::string_view type;
  ValueKind kind;
};
constexpr TypeKind kKinds[] = {{"FILE", ValueKind::kFile},
                               {"DIR", ValueKind::kDirectory},
                               {"RUN_DIR", ValueKind::kDirectory},
                               {"FILE|KEY", ValueKind::kFileOrKey},
                               {"[KEY] [KEY=VALUE ...]", ValueKind::kKey},
                               {"KEY=VALUE", ValueKind::kKeyValue}};

ValueKind kind_of(const std::string& type, const std::vector<std::string>& choices) {
  if (!choices.empty()) return ValueKind::kChoice;
  const auto* const found = std::ranges::find(kKinds, type, &TypeKind::type);
  return found == std::end(kKinds) ? ValueKind::kText : found->kind;
}

OptionOutline option_outline(const VerbOption& option) {
  OptionOutline out;
  out.description = option.description();
  out.default_value = option.default_value();
  out.group = option.group_name();
  out.required = option.is_required();
  out.names = option.names();
  if (option.most_values() == 0) return out;  // a flag
  out.repeats = option.most_values() > 1;
  out.choices = choices_in(option.described_type());
  out.type = out.choices.empty() ? option.described_type() : "WORD";
  out.kind = kind_of(out.type, out.choices);
  return out;
}

void read_footer(const std::string& footer, VerbOutline& out) {
  std::istringstream lines(footer);
  bool examples = false;  // until a blank line
  for (std::string line; std::getline(lines, line);) {
    examples = line == "Examples:" || (examples && !line.empty());
    if (examples && line.starts_with("  ")) {
      out.examples.push_back(line.substr(2));
    } else if (!examples && !(line.empty() && (out.notes.empty() || out.notes.ends_with("\n\n")))) {
      out.notes += line + "\n";
    }
  }
  if (out.notes.ends_with("\n\n")) out.notes.pop_back();
}

}  // namespace

VerbOutline outline(const Verb& verb) {
  const auto line = verb.describe(verb);
  VerbOutline out;
  out.name = verb.name;
  out.summary = verb.summary;
  for (const VerbOption& option : line->app().options()) {
    (option.is_place() ? out.places : out.options).push_back(option_outline(option));
  }
  read_footer(line->app().footer_text(), out);
  return out;
}

std::vector<VerbOutline> outlines() {
  std::vector<VerbOutline> out;
  for (const Verb& verb : verbs()) {
    if (verb.listing == Listing::kListed) out.push_back(outline(verb));
  }
  return out;
}

}  // namespace ds
