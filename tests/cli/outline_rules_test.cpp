// What is read back of a verb that was made up to have everything that verbs can have.
#include "cli/outline.h"
#include "cli/verb_app.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

struct BakeValues {
  std::string flour = "rye";
  std::vector<std::string> guests;
  std::string heat;
  int loaves = 2;
  bool fast = false;
  std::string recipe, folder, hidden;
};

constexpr const char* kFooter =
    "Bread takes time.\n"
    "\n"
    "Examples:\n"
    "  dslaunch bake low\n"
    "  dslaunch bake high --fast\n"
    "\n"
    "\n"
    "Behind the examples.\n"
    "\n"
    "The end.";

void describe_bake(VerbApp& app, BakeValues& values) {
  app.add_option("heat", values.heat, "How hot")->required();
  app.add_option("guests", values.guests, "Who eats")->type_name("NAME");
  app.add_option("-n,--loaves", values.loaves, "How many")->type_name("N")->capture_default_str();
  app.add_option("--flour", values.flour, "Which")
      ->check(ValueCheck([](const std::string&) { return std::string(); }, "{rye,wheat}"))
      ->capture_default_str();
  app.add_option("--recipe", values.recipe, "What to do")->type_name("FILE")->required();
  app.add_option("--into", values.folder, "Where")->type_name("DIR")->group("The oven");
  app.add_option("--run", values.hidden, "Which run")->type_name("RUN_DIR");
  app.add_flag("-f,--fast", values.fast, "In a hurry");
  app.footer(kFooter);
}

const Verb kBake{"bake", "bread, and what is like it", described<BakeValues, describe_bake>};

const OptionOutline& option_of(const VerbOutline& verb, const std::string& name) {
  for (const OptionOutline& option : verb.options) {
    if (option.names.back() == name) return option;
  }
  FAIL("no option " << name);
  return verb.options.front();
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("names, types and groups of options are read back", "[cli]") {
  const VerbOutline bake = outline(kBake);
  CHECK(bake.name == "bake");
  CHECK(bake.summary == "bread, and what is like it");
  const OptionOutline& loaves = option_of(bake, "--loaves");
  CHECK(loaves.names == Words{"-n", "--loaves"});
  CHECK(loaves.type == "N");
  CHECK(loaves.default_value == "2");
  CHECK(loaves.kind == ValueKind::kText);
  CHECK_FALSE(loaves.repeats);
  CHECK_FALSE(loaves.required);
  CHECK(loaves.description == "How many");
  CHECK(option_of(bake, "--into").group == "The oven");
  CHECK(option_of(bake, "--recipe").required);
  CHECK(option_of(bake, "--recipe").group != "The oven");
}

TEST_CASE("what a shell can complete is told by the type", "[cli]") {
  const VerbOutline bake = outline(kBake);
  CHECK(option_of(bake, "--recipe").kind == ValueKind::kFile);
  CHECK(option_of(bake, "--into").kind == ValueKind::kDirectory);
  CHECK(option_of(bake, "--run").kind == ValueKind::kDirectory);
  CHECK(option_of(bake, "--fast").kind == ValueKind::kNone);
  CHECK(option_of(bake, "--fast").type.empty());
  CHECK(option_of(bake, "--help").kind == ValueKind::kNone);
}

TEST_CASE("choices are read back from the check that holds them", "[cli]") {
  const VerbOutline bake = outline(kBake);
  const OptionOutline& flour = option_of(bake, "--flour");
  CHECK(flour.kind == ValueKind::kChoice);
  CHECK(flour.choices == Words{"rye", "wheat"});
  CHECK(flour.type == "WORD");
  CHECK(flour.default_value == "rye");
}

TEST_CASE("words without a name are places, in order", "[cli]") {
  const VerbOutline bake = outline(kBake);
  REQUIRE(bake.places.size() == 2);
  CHECK(bake.places[0].names == Words{"heat"});
  CHECK(bake.places[0].required);
  CHECK_FALSE(bake.places[0].repeats);
  CHECK(bake.places[1].names == Words{"guests"});
  CHECK(bake.places[1].repeats);
  CHECK_FALSE(bake.places[1].required);
}

TEST_CASE("examples and notes are told apart, whatever stands first", "[cli]") {
  const VerbOutline bake = outline(kBake);
  CHECK(bake.examples == Words{"dslaunch bake low", "dslaunch bake high --fast"});
  CHECK(bake.notes == "Bread takes time.\n\nBehind the examples.\n\nThe end.\n");
}

TEST_CASE("a title begins with a capital, and the line with the program", "[cli]") {
  const auto line = kBake.describe(kBake);
  CHECK(line->app().description() == "Bread, and what is like it");
  CHECK(line->app().name() == "dslaunch bake");
  CHECK(line->values<BakeValues>().loaves == 2);
}

TEST_CASE("verbs that nobody types are not among the outlines", "[cli]") {
  for (const VerbOutline& verb : outlines()) CHECK(verb.name != "agent");
  CHECK(outlines().size() + 1 == verbs().size());
}

}  // namespace ds
