// Every option of every verb takes what it says it takes, in each of its spellings, and refuses the
// rest with its name; defaults are what the help says.
#include <fmt/format.h>

#include <fstream>

#include "cli/command_line.h"
#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/outline.h"
#include "cli/overview.h"
#include "cli/verb_app.h"
#include "cli/verbs/elastic.h"
#include "cli/verbs/eval.h"
#include "cli/verbs/generate.h"
#include "cli/verbs/man.h"
#include "cli/verbs/run.h"
#include "cli/verbs/watch/ctl.h"
#include "cli/verbs/watch/tail.h"
#include "core/files/home.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Words = std::vector<std::string>;

template <class Values>
Values values_of(const Words& words) {
  return std::get<ParsedVerb>(parse_line(words)).line->values<Values>();
}

RunArgs run_with(Words words) {
  words.insert(words.begin(), {"run", "t.json"});
  return values_of<RunArgs>(words);
}

std::string refusal_of(const Words& words) {
  try {
    parse_line(words);
  } catch (const UsageError& error) {
    return error.what();
  }
  return "taken";
}

std::string help_of(const std::string& verb) {
  return std::get<InfoText>(parse_line({verb, "--help"})).text;
}

}  // namespace

TEST_CASE("DeepSpeed's spellings with underscores mean what ours mean", "[cli]") {
  for (const auto& [ours, theirs] :
       std::vector<std::pair<std::string, std::string>>{{"--num-nodes", "--num_nodes"},
                                                        {"--num-gpus", "--num_gpus"},
                                                        {"--num-gpus", "--num_accelerators"},
                                                        {"--num-gpus", "--num-accelerators"},
                                                        {"--ssh-port", "--ssh_port"},
                                                        {"--master-port", "--master_port"},
                                                        {"--master-addr", "--master_addr"},
                                                        {"--launcher-args", "--launcher_args"},
                                                        {"--env-file", "--env_file"},
                                                        {"--bind-core-list", "--bind_core_list"}}) {
    CAPTURE(theirs);
    const RunArgs a = run_with({ours, "7"});
    const RunArgs b = run_with({theirs, "7"});
    const auto told = [](const RunArgs& run) {
      const HostOptions& hosts = run.hosts;
      return fmt::format("{} {} {} {} {} {} {} {}", hosts.num_nodes.value_or(0),
                         hosts.num_gpus.value_or(0), hosts.ssh_port.value_or(0), hosts.master_port,
                         hosts.master_addr.value_or("-"), hosts.launcher_args,
                         hosts.environment_file.value_or("-"), run.binding.cores.value_or("-"));
    };
    CHECK(told(a) == told(b));
    CHECK(told(a).find('7') != std::string::npos);
  }
  CHECK(run_with({"--bind_cores_to_rank"}).binding.bind);
}

TEST_CASE("options of hosts have short names", "[cli]") {
  const HostOptions hosts = run_with({"-H", "hosts", "-i", "a@b", "-e", "c:1"}).hosts;
  CHECK(hosts.hostfile == "hosts");
  CHECK(hosts.include == "a@b");
  CHECK(hosts.exclude == "c:1");
}

TEST_CASE("an environment is one word for each --env, and words may have commas", "[cli]") {
  CHECK(run_with({"--env", "A=1,2", "--env=B", "a.b=1"}).hosts.environment == Words{"A=1,2", "B"});
  CHECK(run_with({"--env", "A=1", "a.b=1"}).overrides == Words{"a.b=1"});
  CHECK(run_with({}).hosts.environment.empty());
}

TEST_CASE("words for ssh may look like options", "[cli]") {
  CHECK(run_with({"--launcher-args=-F my_config -v"}).hosts.launcher_args == "-F my_config -v");
}

TEST_CASE("numbers out of their range are refused with the option's name", "[cli]") {
  struct Case {
    Words words;
    const char* option;
  };
  for (const Case& one :
       std::vector<Case>{{{"t.json", "--ssh-port", "0"}, "--ssh-port"},
                         {{"t.json", "--ssh-port", "65536"}, "--ssh-port"},
                         {{"t.json", "--master-port", "-1"}, "--master-port"},
                         {{"t.json", "--master-port", "65536"}, "--master-port"},
                         {{"t.json", "--num-nodes", "0"}, "--num-nodes"},
                         {{"t.json", "--num-gpus", "65537"}, "--num-gpus"},
                         {{"t.json", "--max-restarts", "-1"}, "--max-restarts"},
                         {{"t.json", "--spares", "-1"}, "--spares"},
                         {{"t.json", "--spares", "1.5"}, "--spares"},
                         {{"tail", "--rank", "-1"}, "--rank"},
                         {{"tail", "-n", "1048577"}, "--lines"},
                         {{"generate", "d", "--max-tokens", "0"}, "--max-tokens"},
                         {{"generate", "d", "--top-k", "-1"}, "--top-k"},
                         {{"generate", "d", "--temperature", "-0.1"}, "--temperature"},
                         {{"elastic", "t.json", "--nodes", "0"}, "--nodes"},
                         {{"elastic", "t.json", "-w", "-1"}, "--world-size"}}) {
    CAPTURE(one.words);
    CHECK_THAT(refusal_of(one.words), Catch::Contains(one.option) && Catch::Contains("(see `"));
  }
}

TEST_CASE("no verb takes a number that is none, is infinite or is beyond its type", "[cli]") {
  const std::vector<std::string> kinds = {"N", "T", "K",    "P",     "SEED", "LR",
                                          "X", "R", "PORT", "BYTES", "SIZE", "TIME"};
  int seen = 0;
  for (const Verb& verb : verbs()) {
    if (verb.name == "init") continue;  // it asks again for what it cannot read
    const std::unique_ptr<VerbLine> line = verb.describe(verb);
    Words needed = {std::string(verb.name)};
    for (const VerbOption& option : line->app().options()) {
      if (!option.is_required()) continue;
      const std::string name = option.long_names().empty() ? "" : option.long_names().front();
      needed.push_back(name.empty() ? "word" : fmt::format("--{}=word", name));
    }
    for (const VerbOption& option : line->app().options()) {
      if (std::ranges::find(kinds, option.described_type()) == kinds.end()) continue;
      const std::string name = option.long_names().front();
      // They take 0, and are read by the launcher.
      if (name == "wait-for-hosts" || name == "wait-for-room") continue;
      for (const char* value : {"nan", "inf", "-inf", "1e999", "-1e999", "-1", "one", "1 2", "1x",
                                "0x10", " 1", "99999999999999999999Q"}) {
        CAPTURE(verb.name, name, value);
        Words words = needed;
        words.push_back(fmt::format("--{}={}", name, value));
        CHECK_THAT(refusal_of(words), Catch::Contains("(see `") && Catch::Contains(value));
      }
      ++seen;
    }
  }
  CHECK(seen > 40);
}

TEST_CASE("whole numbers that 64 bits do not hold are refused, not another number", "[cli]") {
  for (const Words& words : {Words{"generate", "d", "--max-tokens", "9223372036854775808"},
                             Words{"generate", "d", "--top-k", "99999999999999999999"},
                             Words{"generate", "d", "--seed", "18446744073709551616"},
                             Words{"lr-range-test", "t.json", "--step-size", "9223372036854775808"},
                             Words{"nvme-tune", "--io-size", "9223372036854775808"},
                             Words{"nvme-tune", "--io-size", "9007199254740992K"}}) {
    CAPTURE(words);
    CHECK_THAT(refusal_of(words), Catch::Contains("expected a"));
  }
  CHECK(values_of<GenerateArgs>({"generate", "d", "--seed", "18446744073709551615"}).seed ==
        UINT64_MAX);
}

TEST_CASE("sizes are bytes by powers of 1024", "[cli]") {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, int64_t>>{{"4096", 4096},
                                                    {"1b", 1},
                                                    {"128K", 131072},
                                                    {"128 kb", 131072},
                                                    {"1GiB", 1 << 30},
                                                    {"2m", 2 << 20},
                                                    {"1ti", int64_t{1} << 40},
                                                    {"7E", int64_t{7} << 60}}) {
    CAPTURE(text);
    CHECK(parse_size(text) == bytes);
  }
  for (const char* text : {"", "0", "-1", "K", "1x", "1kk", "8E", "1.5K", "9223372036854775808"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_size(text));
  }
}

TEST_CASE("a refused number is told with what is expected", "[cli]") {
  CHECK(refusal_of({"generate", "d", "--temperature", "nan"}) ==
        "--temperature: 'nan', expected a finite number from 0 on (see `dslaunch generate "
        "--help`)");
  CHECK(refusal_of({"generate", "d", "--top-p", "0"}) ==
        "--top-p: '0', expected a number from 1e-09 to 1 (see `dslaunch generate --help`)");
  CHECK(refusal_of({"generate", "d", "--seed", "-1"}) ==
        "--seed: '-1', expected a whole number from 0 to 18446744073709551615 (see `dslaunch "
        "generate --help`)");
  CHECK(refusal_of({"t.json", "--num-ranks", "0"}) ==
        "--num-ranks: '0', expected a whole number from 1 to 65536 (see `dslaunch run --help`)");
  CHECK(refusal_of({"lr-range-test", "t.json", "--min-lr", "inf"}) ==
        "--min-lr: 'inf', expected a finite number above 0 (see `dslaunch lr-range-test --help`)");
}

TEST_CASE("a ~ behind an equals sign is the home folder, in every option that is a path", "[cli]") {
  const std::string home = expand_home("~").value();
  CHECK(run_with({"--run-dir=~/runs/x"}).run_dir == home + "/runs/x");
  CHECK(run_with({"--run-dir", "~"}).run_dir == home);
  CHECK(run_with({"--hostfile=~/hosts", "--env-file=~/env"}).hosts.hostfile == home + "/hosts");
  CHECK(values_of<GenerateArgs>({"generate", "~/d"}).source == home + "/d");
  CHECK(values_of<EvalArgs>({"eval", "d", "--data=~/x.txt"}).data == Words{home + "/x.txt"});
  CHECK(run_with({"~train.epochs", "a=~/b"}).overrides == Words{"~train.epochs", "a=~/b"});
  CHECK_THAT(refusal_of({"t.json", "--run-dir=~nobody-of-this-name/x"}),
             Catch::Contains("no user has ~nobody-of-this-name as home folder") &&
                 Catch::Contains("(see `"));
}

TEST_CASE("the ends of each range are taken", "[cli]") {
  CHECK(run_with({"--ssh-port", "65535"}).hosts.ssh_port == 65535);
  CHECK(run_with({"--master-port", "0"}).hosts.master_port == 0);
  CHECK(run_with({"--num-gpus", "65536"}).hosts.num_gpus == 65536);
  CHECK(run_with({"--max-restarts", "0"}).max_restarts == 0);
  CHECK(values_of<TailOptions>({"tail", "-n", "0"}).lines == 0);
  CHECK(values_of<GenerateArgs>({"generate", "d", "--temperature", "0"}).drawing.temperature ==
        0.0);
  CHECK(values_of<GenerateArgs>({"generate", "d", "--top-p", "1"}).drawing.top_p == 1.0);
}

TEST_CASE("durations are taken with their units and refused without sense", "[cli]") {
  CHECK(run_with({"--timeout", "2h"}).timeout == std::chrono::hours(2));
  CHECK(run_with({"--hang-after=1.5m"}).hang_after == std::chrono::seconds(90));
  CHECK_THAT(refusal_of({"t.json", "--timeout", "5d"}),
             Catch::Contains("duration '5d'") && Catch::Contains("(see `dslaunch run --help`)"));
}

TEST_CASE("an option given twice is refused, unless it is a list", "[cli]") {
  CHECK_THAT(refusal_of({"t.json", "--num-ranks", "1", "--num-ranks", "1"}),
             Catch::Contains("--num-ranks"));
  CHECK_THAT(refusal_of({"t.json", "--run-dir", "a", "--run-dir", "b"}),
             Catch::Contains("--run-dir"));
  CHECK(refusal_of({"t.json", "--env", "A", "--env", "B"}) == "taken");
}

TEST_CASE("an option without its value is refused", "[cli]") {
  for (const Words& words : std::vector<Words>{{"t.json", "--num-ranks"},
                                               {"t.json", "--hostfile"},
                                               {"tail", "--rank"},
                                               {"generate", "d", "--prompt"}}) {
    CAPTURE(words);
    CHECK_THAT(refusal_of(words), Catch::Contains(words.back()));
  }
}

TEST_CASE("two dashes end the options", "[cli]") {
  const RunArgs run = values_of<RunArgs>({"run", "--dry-run", "--", "t.json", "a.b=1"});
  CHECK(run.dry_run);
  CHECK(run.config == "t.json");
  CHECK(run.overrides == Words{"a.b=1"});
}

TEST_CASE("stray words are told from changes of the configuration", "[cli]") {
  for (const char* verb : {"run", "plan", "elastic"}) {
    CAPTURE(verb);
    CHECK_THAT(refusal_of({verb, "t.json", "a.b=1", "stray"}),
               Catch::StartsWith("'stray': expected key.path=value or ~key.path"));
    CHECK(refusal_of({verb, "t.json", "a.b=1", "~c"}) == "taken");
  }
  CHECK_NOTHROW(check_overrides({"a=", "+a=1", "~"}));
  CHECK_THROWS_AS(check_overrides({"+a"}), UsageError);
}

TEST_CASE("the page of a verb and a folder for all of them exclude each other", "[cli]") {
  CHECK(values_of<ManOptions>({"man", "run"}).page == "run");
  CHECK(values_of<ManOptions>({"man", "--output", "man1"}).output == "man1");
  CHECK_THAT(refusal_of({"man", "run", "--output", "man1"}), Catch::Contains("exclude"));
}

TEST_CASE("ids are decoded, counted or framed, one at a time", "[cli]") {
  const Words line = {"tokenize", "--tokenizer", "byte"};
  const auto with = [&](Words flags) {
    flags.insert(flags.begin(), line.begin(), line.end());
    return refusal_of(flags);
  };
  for (const char* other : {"--count", "--special-tokens"}) {
    CHECK_THAT(with({"--decode", other}),
               Catch::StartsWith("--decode excludes --special-tokens and --count (see `dslaunch"));
  }
  CHECK(with({"--decode"}) == "taken");
  CHECK(with({"--count", "--special-tokens"}) == "taken");
}

TEST_CASE("a file of the name of no verb is a configuration, and a verb's name stays one",
          "[cli]") {
  CHECK(std::get<ParsedVerb>(parse_line({"train.json"})).verb->name == "run");
  CHECK(std::get<ParsedVerb>(parse_line({"status"})).verb->name == "status");
  CHECK(std::get<ParsedVerb>(parse_line({"./status"})).verb->name == "run");
  CHECK(std::get<ParsedVerb>(parse_line({"--dry-run", "train.json"})).verb->name == "run");
}

TEST_CASE("help behind help is that of the verb", "[cli]") {
  for (const VerbOutline& verb : outlines()) {
    CHECK(std::get<InfoText>(parse_line({"help", verb.name})).text == help_of(verb.name));
    CHECK(std::get<InfoText>(parse_line({"--help", verb.name})).text == help_of(verb.name));
    CHECK(std::get<InfoText>(parse_line({verb.name, "-h"})).text == help_of(verb.name));
  }
  CHECK(std::get<InfoText>(parse_line({"help"})).text == overview());
}

TEST_CASE("help wins over what is wrong or missing in the line", "[cli]") {
  for (const Words& words : std::vector<Words>{{"run", "--help"},
                                               {"eval", "--help"},
                                               {"ctl", "--help"},
                                               {"generate", "--max-tokens", "3", "--help"}}) {
    CAPTURE(words);
    CHECK(std::get<InfoText>(parse_line(words)).text == help_of(words.front()));
  }
}

TEST_CASE("the help of a verb names its options, its choices and its defaults", "[cli]") {
  for (const VerbOutline& verb : outlines()) {
    const std::string help = help_of(verb.name);
    for (const OptionOutline& option : verb.options) {
      CAPTURE(verb.name, option.names);
      CHECK_THAT(help, Catch::Contains(option.names.back()));
      for (const std::string& choice : option.choices) CHECK_THAT(help, Catch::Contains(choice));
      if (!option.default_value.empty()) {
        CHECK_THAT(help, Catch::Contains("=" + option.default_value));
      }
    }
    for (const std::string& example : verb.examples) CHECK_THAT(help, Catch::Contains(example));
  }
}

TEST_CASE("every choice of every option is taken, and a word that is none is refused", "[cli]") {
  size_t tried = 0;
  for (const VerbOutline& verb : outlines()) {
    for (const OptionOutline& option : verb.options) {
      for (const std::string& choice : option.choices) {
        CAPTURE(verb.name, option.names.back(), choice);
        // What else a line of the verb has to have is missing, and is told only of good values.
        const auto told = [&](const std::string& word) {
          Words words = {verb.name, option.names.back(), word};
          if (!option.names.back().starts_with('-')) words.erase(words.begin() + 1);
          return refusal_of(words);
        };
        CHECK_THAT(told(choice), !Catch::Contains("is none of"));
        CHECK_THAT(told(choice + "x"), Catch::Contains("'" + choice + "x' is none of"));
        ++tried;
      }
    }
  }
  CHECK(tried >= 6);
}

TEST_CASE("every example of every verb is a line that is understood", "[cli]") {
  size_t tried = 0;
  for (const VerbOutline& verb : outlines()) {
    CHECK_FALSE(verb.examples.empty());
    for (const std::string& example : verb.examples) {
      Words words;
      bool quoted = false;
      std::string word;
      for (const char c : example + " ") {
        if (c == '"' || c == '\'') {
          quoted = !quoted;
        } else if (c == ' ' && !quoted) {
          if (!word.empty()) words.push_back(word);
          word.clear();
        } else {
          word += c;
        }
      }
      const auto end = std::find_if(words.begin(), words.end(), [](const std::string& w) {
        return w == "|" || w == ">" || w == "<" || w == "&&" || w == "2>";
      });
      words.erase(end, words.end());
      if (words.empty() || words.front() != "dslaunch") continue;  // another program feeds it
      words.erase(words.begin());
      CAPTURE(example);
      CHECK(refusal_of(words) == "taken");
      ++tried;
    }
  }
  CHECK(tried >= 30);
}

}  // namespace ds
