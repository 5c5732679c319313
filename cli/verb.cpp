#include "cli/verb.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "cli/verb_app.h"

namespace ds {
namespace {

std::string title(std::string_view summary) {
  std::string text(summary);
  text.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(text.front())));
  return text;
}

}  // namespace

VerbLine::VerbLine(const Verb& verb, std::any values)
    : values_(std::move(values)),
      app_(std::make_unique<VerbApp>(title(verb.summary), "dslaunch " + std::string(verb.name))) {}

VerbLine::~VerbLine() = default;

const Verb* find_verb(std::string_view name) {
  const auto found = std::ranges::find(verbs(), name, &Verb::name);
  return found == verbs().end() ? nullptr : &*found;
}

}  // namespace ds
