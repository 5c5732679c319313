// What holds for every verb, also for those that come later.
#include <fmt/format.h>

#include "cli/command_line.h"
#include "cli/overview.h"
#include "cli/verb.h"
#include "cli/verb_app.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("every listed verb stands in the overview with its line", "[cli]") {
  for (const Verb& verb : verbs()) {
    INFO(verb.name);
    const std::string line = fmt::format("\n  {:<13}  {}\n", verb.name, verb.summary);
    CHECK((overview().find(line) != std::string::npos) == (verb.listing == Listing::kListed));
    CHECK(verb.summary.size() < 72);
  }
}

TEST_CASE("every listed verb has help with examples and --json, and every option says what it is",
          "[cli]") {
  for (const Verb& verb : verbs()) {
    if (verb.listing == Listing::kHidden) continue;
    INFO(verb.name);
    const std::string help =
        std::get<InfoText>(parse_line({std::string(verb.name), "--help"})).text;
    CHECK_THAT(help, Catch::Contains("Examples:\n  dslaunch "));
    const auto line = verb.describe(verb);
    CHECK(line->app().find_option("--json") != nullptr);
    for (const VerbOption& option : line->app().options()) {
      INFO(option.names().back());
      CHECK_FALSE(option.description().empty());
    }
  }
}

TEST_CASE("no verb is there twice", "[cli]") {
  for (const Verb& verb : verbs()) CHECK(find_verb(verb.name) == &verb);
  CHECK(find_verb("stauts") == nullptr);
  CHECK(find_verb("") == nullptr);
}

}  // namespace ds
