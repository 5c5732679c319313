// What completion and manual pages are made from, and that they hold what is there.
#include "cli/outline.h"

#include <algorithm>

#include "cli/completion/keys.h"
#include "cli/completion/script.h"
#include "cli/manual.h"
#include "config/explain/explain.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

const OptionOutline& option_of(const VerbOutline& verb, const std::string& name) {
  const auto found = std::ranges::find_if(verb.options, [&](const OptionOutline& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
  REQUIRE(found != verb.options.end());
  return *found;
}

}  // namespace

TEST_CASE("an outline says what stands behind each option and at each place", "[cli]") {
  const VerbOutline run = outline(*find_verb("run"));
  CHECK(option_of(run, "--resume").kind == ValueKind::kChoice);
  CHECK(option_of(run, "--resume").choices ==
        std::vector<std::string>{"auto", "required", "never"});
  CHECK(option_of(run, "--hostfile").kind == ValueKind::kFile);
  CHECK(option_of(run, "-H").kind == ValueKind::kFile);
  CHECK(option_of(run, "--run-dir").kind == ValueKind::kDirectory);
  CHECK(option_of(run, "--num-ranks").kind == ValueKind::kText);
  CHECK(option_of(run, "--dry-run").kind == ValueKind::kNone);
  CHECK(option_of(run, "--max-restarts").default_value == "3");
  CHECK(option_of(run, "--hostfile").group == "Several hosts");
  REQUIRE(run.places.size() == 2);
  CHECK(run.places[0].kind == ValueKind::kFile);
  CHECK(run.places[0].required);
  CHECK(run.places[1].repeats);
  CHECK(run.places[1].kind == ValueKind::kKeyValue);
  CHECK(run.examples.front() == "dslaunch train.json");
  CHECK_THAT(run.notes, Catch::StartsWith("Ctrl-C stops"));
  const VerbOutline ctl = outline(*find_verb("ctl"));
  CHECK(ctl.places[0].choices.front() == "save");
  CHECK(ctl.places[1].kind == ValueKind::kDirectory);
  const VerbOutline explain = outline(*find_verb("explain"));
  CHECK(explain.places[0].kind == ValueKind::kFileOrKey);
  CHECK(explain.places[1].kind == ValueKind::kKey);
}

TEST_CASE("keys that shells propose have one name, are current, and know their words", "[cli]") {
  const std::vector<CompletedKey> keys = completed_keys();
  CHECK(std::ranges::is_sorted(keys, {}, &CompletedKey::path));
  const auto values_of = [&](const std::string& path) {
    const auto found = std::ranges::find(keys, path, &CompletedKey::path);
    INFO(path);
    REQUIRE(found != keys.end());
    return found->values;
  };
  CHECK(values_of("train.steps").empty());
  CHECK(values_of("zero_optimization.overlap_comm") == std::vector<std::string>{"false", "true"});
  CHECK(values_of("zero_optimization.offload_param.device") ==
        std::vector<std::string>{"none", "cpu", "nvme"});
  for (const CompletedKey& key : keys) {
    INFO(key.path);
    CHECK(key.path.find_first_of("<[ ") == std::string::npos);
    CHECK(is_known_key(key.path));
  }
  CHECK(std::ranges::find(keys, "zero_optimization", &CompletedKey::path) == keys.end());
}

std::string in_roff(const std::string& name) {
  std::string text;
  for (const char c : name) text += c == '-' ? std::string("\\-") : std::string(1, c);
  return text;
}

TEST_CASE("scripts and pages name every verb and every option", "[cli]") {
  const std::vector<VerbOutline> verbs = outlines();
  const std::string manual = manual_page(verbs, "1.2.3");
  for (const VerbOutline& verb : verbs) {
    const std::string page = manual_page(verb, "1.2.3");
    CHECK_THAT(manual, Catch::Contains("\n.B " + in_roff(verb.name) + "\n"));
    CHECK_THAT(page, Catch::StartsWith(".TH DSLAUNCH\\-") && Catch::Contains("dslaunch 1.2.3"));
    for (const OptionOutline& option : verb.options) {
      const std::string name = option.names.back();
      INFO(verb.name << " " << name);
      CHECK_THAT(page, Catch::Contains(in_roff(name)));
      for (const Shell shell : {Shell::kBash, Shell::kZsh, Shell::kFish}) {
        if (name.find('_') != std::string::npos) continue;
        CHECK_THAT(completion_script(shell, verbs, {}),
                   Catch::Contains(name.substr(name.find_first_not_of('-'))));
      }
    }
  }
}

}  // namespace ds
