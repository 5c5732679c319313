#include "cli/verb.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <utility>

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
      app_(std::make_unique<CLI::App>(title(verb.summary), "dslaunch " + std::string(verb.name))) {
  app_->option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
}

VerbLine::~VerbLine() = default;

const Verb* find_verb(std::string_view name) {
  const auto found = std::ranges::find(verbs(), name, &Verb::name);
  return found == verbs().end() ? nullptr : &*found;
}

}  // namespace ds
