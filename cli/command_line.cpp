#include "cli/command_line.h"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <system_error>

#include "cli/other_words.h"
#include "cli/overview.h"
#include "cli/typing.h"
#include "cli/verb_app.h"
#include "core/files/home.h"
#include "core/status/error.h"

namespace ds {
namespace {

// An unknown option explains everything else: its value is taken for another word.
UsageError refusal(const VerbApp& app, const std::string& otherwise) {
  return UsageError(fmt::format("{} (see `{} --help`)",
                                unknown_option(app, app.remaining()).value_or(otherwise),
                                app.name()));
}

// A shell leaves the ~ of --run-dir=~/runs as it is.
void expand_paths(VerbApp& app) {
  constexpr std::array<std::string_view, 6> kPaths = {"FILE",    "DIR",     "RUN_DIR",
                                                      "PATH...", "DIR:GPU", "NAME"};
  app.rewrite_values(kPaths, [](const std::string& path) {
    std::optional<std::string> expanded = expand_home(path);
    if (!expanded) throw UsageError(no_home_text(path));
    return std::move(*expanded);
  });
}

ParsedLine parse_verb(const Verb& verb, const std::vector<std::string>& words) {
  ParsedVerb parsed{&verb, verb.describe(verb)};
  VerbApp& app = parsed.line->app();
  expand_paths(app);
  try {
    if (app.parse(words) == VerbApp::Outcome::kHelp) return InfoText{app.help()};
  } catch (const UsageError& error) {
    throw refusal(app, error.what());
  }
  return parsed;
}

// A folder, such as one of data that is called train, is none.
bool is_file(const std::string& path) {
  std::error_code unseen;
  return std::filesystem::exists(path, unseen) && !std::filesystem::is_directory(path, unseen);
}

}  // namespace

ParsedLine parse_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) throw UsageError(fmt::format("no config given\n\n{}", overview()));
  const std::string& first = arguments.front();
  const bool helpful = first == "--help" || first == "-h" || first == "help";
  if (helpful && arguments.size() == 1) return InfoText{overview()};
  if (helpful) return parse_line({arguments[1], "--help"});
  if (const Verb* const verb = find_verb(first)) {
    return parse_verb(*verb, {arguments.begin() + 1, arguments.end()});
  }
  const bool is_script = first.ends_with(".py");
  if (is_script || (is_written_as_verb(first) && !is_file(first))) {
    const std::string next = arguments.size() > 1 ? arguments[1] : "";
    if (const auto instead = instead_of_first_word(first, next)) {
      throw UsageError(fmt::format("{} (see `dslaunch --help`)", *instead));
    }
  }
  std::error_code unseen;
  if (is_written_as_verb(first) && !std::filesystem::exists(first, unseen)) {
    throw UsageError(unknown_verb(first));
  }
  return parse_verb(*find_verb("run"), arguments);
}

}  // namespace ds
