#include "cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "cli/overview.h"
#include "core/error.h"

namespace ds {
namespace {

ParsedLine parse_verb(const Verb& verb, std::vector<std::string> words) {
  ParsedVerb parsed{&verb, verb.describe(verb)};
  CLI::App& app = parsed.line->app();
  std::ranges::reverse(words);  // CLI11 takes them from the back
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    return InfoText{app.help()};
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{} (see `{} --help`)", error.what(), app.get_name()));
  }
  return parsed;
}

}  // namespace

ParsedLine parse_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError(fmt::format("no config given\n\n{}", overview()));
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") return InfoText{overview()};
  if (const Verb* const verb = find_verb(first)) {
    return parse_verb(*verb, {arguments.begin() + 1, arguments.end()});
  }
  return parse_verb(*find_verb("run"), arguments);
}

}  // namespace ds
