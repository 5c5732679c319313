// Completion scripts and manual pages of two verbs that were made up for it, as texts that a person
// can read (tests/golden/cli/scripts.txt), and the rules of quoting one by one.
#include <fmt/format.h>

#include "cli/completion/script.h"
#include "cli/manual.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

OptionOutline option_of(std::vector<std::string> names, std::string type, std::string description,
                        ValueKind kind) {
  OptionOutline option;
  option.names = std::move(names);
  option.type = std::move(type);
  option.description = std::move(description);
  option.group = "Options";
  option.kind = kind;
  return option;
}

// One verb with an option of every kind, and one with hardly any.
std::vector<VerbOutline> made_up() {
  VerbOutline bake;
  bake.name = "bake";
  bake.summary = "bread, and what is like it";
  bake.options = {
      option_of({"-h", "--help"}, "", "Print this", ValueKind::kNone),
      option_of({"-n", "--loaves"}, "N", "How many", ValueKind::kText),
      option_of({"--flour"}, "WORD", "It's [the] kind: one", ValueKind::kChoice),
      option_of({"--recipe"}, "FILE", "What to do", ValueKind::kFile),
      option_of({"--into", "--into_folder"}, "DIR", "Where it goes", ValueKind::kDirectory)};
  bake.options[1].default_value = "2";
  bake.options[2].choices = {"rye", "wheat"};
  bake.options[3].required = true;
  bake.options[4].group = "The oven";
  bake.places = {option_of({"heat"}, "WORD", "How hot", ValueKind::kChoice),
                 option_of({"guests"}, "NAME", "Who eats", ValueKind::kText)};
  bake.places[0].choices = {"low", "high"};
  bake.places[0].required = true;
  bake.places[1].repeats = true;
  bake.examples = {"dslaunch bake low --flour rye", "dslaunch bake high 'Ann B'"};
  bake.notes = "Bread takes time.\n\n.5 hours are too few.\n";
  VerbOutline eat;
  eat.name = "eat";
  eat.summary = "what was baked";
  eat.options = {option_of({"--json"}, "", "One object", ValueKind::kNone)};
  eat.places = {option_of({"from"}, "RUN_DIR", "The kitchen", ValueKind::kDirectory),
                option_of({"changes"}, "KEY=VALUE", "Of the recipe", ValueKind::kKeyValue)};
  eat.places[1].repeats = true;
  return {bake, eat};
}

const std::vector<CompletedKey> kKeys{
    {"oven.fan", {"off", "on"}}, {"oven.heat.above", {}}, {"oven.heat.below", {}}, {"salt", {}}};

std::string answer(const std::string& command) {
  const std::vector<VerbOutline> verbs = made_up();
  const std::string what = command.substr(0, command.find('\n'));
  if (what == "bash") return completion_script(Shell::kBash, verbs, kKeys);
  if (what == "zsh") return completion_script(Shell::kZsh, verbs, kKeys);
  if (what == "fish") return completion_script(Shell::kFish, verbs, kKeys);
  if (what == "man") return manual_page(verbs, "1.2-rc3");
  if (what == "man bake") return manual_page(verbs[0], "1.2-rc3");
  if (what == "man eat") return manual_page(verbs[1], "1.2-rc3");
  return "no such command\n";
}

// The lines of a text that hold a word.
std::string lines_with(const std::string& text, const std::string& word) {
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    if (line.find(word) != std::string::npos) out += line + "\n";
    begin = end + 1;
  }
  return out;
}

VerbOutline verb_with(OptionOutline option) {
  VerbOutline verb;
  verb.name = "bake";
  verb.summary = "bread";
  verb.options = {std::move(option)};
  return verb;
}

}  // namespace

TEST_CASE("scripts and pages of two verbs are as a person expects them", "[cli]") {
  testing::run_golden("cli/scripts.txt", answer);
}

TEST_CASE("an apostrophe in a description does not end the word in any shell", "[cli]") {
  const std::vector<VerbOutline> verbs = {
      verb_with(option_of({"--flour"}, "WORD", "It's good", ValueKind::kText))};
  CHECK_THAT(completion_script(Shell::kZsh, verbs, kKeys), Catch::Contains("It'\\''s good"));
  CHECK_THAT(completion_script(Shell::kFish, verbs, kKeys), Catch::Contains("'It'\\''s good'"));
}

TEST_CASE("signs that zsh takes for its own are escaped in descriptions", "[cli]") {
  const std::vector<VerbOutline> verbs = {
      verb_with(option_of({"--flour"}, "A:B", "a [b]: c\\d", ValueKind::kText))};
  CHECK_THAT(completion_script(Shell::kZsh, verbs, kKeys),
             Catch::Contains("'--flour=[a \\[b\\]\\: c\\\\d]:A\\:B: '"));
}

TEST_CASE("spellings with underscores are taken, and not proposed", "[cli]") {
  const std::vector<VerbOutline> verbs = {
      verb_with(option_of({"--num-loaves", "--num_loaves"}, "FILE", "x", ValueKind::kFile))};
  const std::string bash = completion_script(Shell::kBash, verbs, kKeys);
  CHECK_THAT(lines_with(bash, "__dslaunch_words '"), !Catch::Contains("num_loaves"));
  CHECK_THAT(lines_with(bash, "return 0"), Catch::Contains("'bake --num_loaves'"));
  CHECK_THAT(lines_with(bash, "__dslaunch_paths -f ;;"), Catch::Contains("'bake --num_loaves'"));
  CHECK_THAT(completion_script(Shell::kZsh, verbs, kKeys), !Catch::Contains("num_loaves"));
  CHECK_THAT(completion_script(Shell::kFish, verbs, kKeys), !Catch::Contains("num_loaves"));
}

TEST_CASE("a flag takes no value in any shell", "[cli]") {
  const std::vector<VerbOutline> verbs = {
      verb_with(option_of({"-f", "--fast"}, "", "x", ValueKind::kNone))};
  CHECK_THAT(completion_script(Shell::kBash, verbs, kKeys), !Catch::Contains("return 0"));
  CHECK_THAT(completion_script(Shell::kZsh, verbs, kKeys),
             Catch::Contains("'-f[x]'") && Catch::Contains("'--fast[x]'"));
  CHECK_THAT(completion_script(Shell::kFish, verbs, kKeys),
             Catch::Contains(" -s f -l fast -d 'x'"));
}

TEST_CASE("what roff would take for orders is printed as it is", "[cli]") {
  VerbOutline verb = verb_with(
      option_of({"--flour"}, "N", ".start \\n 'quote' `tick` ^hat ~tilde", ValueKind::kText));
  verb.notes = "'quoted\n.dotted\nplain\n";
  const std::string page = manual_page(verb, "1");
  CHECK_THAT(page, Catch::Contains("\n\\&.start \\en \\(aqquote\\(aq \\(gatick\\(ga \\(hahat "
                                   "\\(titilde\n"));
  CHECK_THAT(page, Catch::Contains("\n\\&\\(aqquoted\n\\&.dotted\nplain\n"));
  CHECK_THAT(page, Catch::Contains("\\fB\\-\\-flour\\fR \\fIN\\fR"));
}

TEST_CASE("every line of a page that begins with a dot is an order of the man macros", "[cli]") {
  for (const VerbOutline& verb : outlines()) {
    const std::string page = "\n" + manual_page(verb, "1.0");
    for (size_t at = page.find("\n."); at != std::string::npos; at = page.find("\n.", at + 1)) {
      const std::string order = page.substr(at + 1, page.find_first_of(" \n", at + 1) - at - 1);
      CAPTURE(verb.name, order);
      const std::vector<std::string> known = {".TH", ".SH", ".SS", ".B",  ".I",  ".RI", ".RB",
                                              ".BR", ".TP", ".br", ".nf", ".fi", ".PP"};
      CHECK(std::find(known.begin(), known.end(), order) != known.end());
    }
  }
}

}  // namespace ds
