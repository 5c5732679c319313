#include "launcher/command_line.h"

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

RunOptions run_options(const std::vector<std::string>& arguments) {
  return std::get<RunOptions>(parse_command_line(arguments));
}

}  // namespace

TEST_CASE("a config alone is a run with defaults", "[launcher]") {
  const RunOptions options = run_options({"train.json"});
  CHECK(options.config == "train.json");
  CHECK(options.overrides.empty());
  CHECK_FALSE(options.num_ranks);
  CHECK_FALSE(options.num_threads);
  CHECK_FALSE(options.resume);
  CHECK_FALSE(options.run_dir);
  CHECK_FALSE(options.timeout);
  CHECK_FALSE(options.dry_run);
}

TEST_CASE("options are taken before, between and after the config and its overrides",
          "[launcher]") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--num-ranks", "3", "train.json", "a.b=1", "c=-2", "--resume", "required"},
           {"train.json", "--num-ranks", "3", "a.b=1", "--resume=required", "c=-2"},
           {"run", "train.json", "a.b=1", "c=-2", "--num-ranks=3", "--resume", "required"}}) {
    const RunOptions options = run_options(arguments);
    CHECK(options.config == "train.json");
    CHECK(options.overrides == std::vector<std::string>{"a.b=1", "c=-2"});
    CHECK(options.num_ranks == 3);
    CHECK(options.resume == ResumeMode::kRequired);
  }
}

TEST_CASE("hosts are waited for a minute, as long as asked, or not at all", "[launcher]") {
  CHECK(run_options({"t.json"}).wait_for_hosts == std::chrono::seconds(60));
  CHECK(run_options({"t.json", "--wait-for-hosts", "5m"}).wait_for_hosts == std::chrono::minutes(5));
  CHECK(run_options({"t.json", "--wait-for-hosts", "0"}).wait_for_hosts == Time::zero());
}

TEST_CASE("overrides may add and remove keys", "[launcher]") {
  const RunOptions options = run_options({"t.json", "+a.b=1", "++c=2", "~d.e", R"(f={"g": [1]})"});
  CHECK(options.overrides.size() == 4);
}

TEST_CASE("wrong command lines are usage errors", "[launcher]") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"run"},
                                             {"train.json", "--nonsense"},
                                             {"train.json", "stray"},
                                             {"train.json", "--num-ranks", "0"},
                                             {"train.json", "--num-ranks", "-1"},
                                             {"train.json", "--num-ranks", "two"},
                                             {"train.json", "--num-ranks", "99999999999999999999"},
                                             {"train.json", "--num-threads=0"},
                                             {"train.json", "--resume", "maybe"},
                                             {"train.json", "--resume", "auto", "--resume", "never"},
                                             {"train.json", "--timeout", "soon"},
                                             {"train.json", "--time-limit", "later"},
                                             {"train.json", "--wait-for-hosts", "-1"},
                                             {"train.json", "--bind-core-list", "5-2"},
                                             {"train.json", "--run-dir="},
                                             {"train.json", "--launcher", "rsh"}}) {
    CHECK_THROWS_AS(parse_command_line(arguments), UsageError);
  }
}

TEST_CASE("the end of the job comes from Slurm, from the user, or not at all", "[launcher]") {
  CHECK(run_options({"t.json"}).ask_for_time_limit);
  const RunOptions said = run_options({"t.json", "--time-limit", "2h"});
  CHECK(said.time_limit == Time(std::chrono::hours(2)));
  CHECK_FALSE(said.ask_for_time_limit);
  const RunOptions none = run_options({"t.json", "--time-limit", "none"});
  CHECK_FALSE(none.time_limit);
  CHECK_FALSE(none.ask_for_time_limit);
}

TEST_CASE("binding in DeepSpeed's spellings and ours", "[launcher]") {
  CHECK_FALSE(run_options({"t.json"}).binding.wants_topology());
  CHECK(run_options({"--bind_cores_to_rank", "t.json"}).binding.bind);
  CHECK(run_options({"--bind-cores-to-rank", "t.json"}).binding.bind);
  CHECK(run_options({"--bind_core_list", "1,3-5", "t.json"}).binding.cores ==
        std::vector<int>{1, 3, 4, 5});
  CHECK(run_options({"--report-bindings", "t.json"}).binding.report);
}

TEST_CASE("help and version are text", "[launcher]") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--help"}, {"-h"}, {"help"}, {"--version"}, {"run", "--help"}, {"t.json", "--help"}}) {
    CHECK_FALSE(std::get<InfoText>(parse_command_line(arguments)).text.empty());
  }
}

TEST_CASE("engine verbs are passed on as they are", "[launcher]") {
  const std::vector<std::string> arguments{"generate", "runs/latest", "--prompt", "--odd"};
  CHECK(std::get<EngineVerb>(parse_command_line(arguments)).arguments == arguments);
}

TEST_CASE("verbs about the configuration have their own options", "[launcher]") {
  const auto check = std::get<CheckOptions>(
      parse_command_line({"check", "t.json", "--num-ranks", "4", "a.b=1"}));
  CHECK(check.config == "t.json");
  CHECK(check.num_ranks == 4);
  CHECK(check.overrides == std::vector<std::string>{"a.b=1"});
  CHECK_FALSE(std::get<CheckOptions>(parse_command_line({"check", "t.json"})).num_ranks);

  const auto explain = std::get<ExplainOptions>(
      parse_command_line({"explain", "t.json", "a=1", "zero_optimization.stage", "~b"}));
  CHECK(explain.key == "zero_optimization.stage");
  CHECK(explain.overrides == std::vector<std::string>{"a=1", "~b"});

  const auto elastic = std::get<ElasticVerbOptions>(
      parse_command_line({"elastic", "t.json", "-w", "16", "--json"}));
  CHECK(elastic.world_size == 16);
  CHECK(elastic.output == ElasticOutput::kJson);

  CHECK(std::get<SchemaForm>(parse_command_line({"schema"})) == SchemaForm::kJsonSchema);
  CHECK(std::get<SchemaForm>(parse_command_line({"schema", "--markdown"})) ==
        SchemaForm::kMarkdown);
  for (const char* verb : {"check", "explain", "elastic", "schema", "preflight"}) {
    CHECK_THAT(std::get<InfoText>(parse_command_line({verb, "--help"})).text,
               Catch::Contains("Examples:"));
    CHECK_THROWS_AS(parse_command_line({verb, "t.json", "--nonsense"}), UsageError);
  }
  CHECK_THROWS_AS(parse_command_line({"explain", "t.json", "one", "two"}), UsageError);
  CHECK_THROWS_AS(parse_command_line({"check", "t.json", "stray"}), UsageError);
}

TEST_CASE("durations have units", "[launcher]") {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  CHECK(parse_duration("90") == seconds(90));
  CHECK(parse_duration("90s") == seconds(90));
  CHECK(parse_duration("0.25") == milliseconds(250));
  CHECK(parse_duration("10m") == seconds(600));
  CHECK(parse_duration("2h") == seconds(7200));
  for (const char* text : {"", "s", "-1", "0", "10d", "1 0", "nan", "inf", "1e300h", "5mm"}) {
    CHECK_THROWS_AS(parse_duration(text), UsageError);
  }
}

TEST_CASE("preflight takes the hosts of a run, with or without a config", "[launcher]") {
  const auto options = [](const std::vector<std::string>& arguments) {
    return std::get<PreflightOptions>(parse_command_line(arguments));
  };
  CHECK(options({"preflight"}).run.config.empty());
  const PreflightOptions full =
      options({"preflight", "--hostfile", "hosts", "train.json", "a.b=1", "--run-dir", "r", "--json"});
  CHECK(full.run.config == "train.json");
  CHECK(full.run.overrides == std::vector<std::string>{"a.b=1"});
  CHECK(full.run.hosts.hostfile == "hosts");
  CHECK(full.run.run_dir == "r");
  CHECK(full.json);
  CHECK_THROWS_AS(parse_command_line({"preflight", "train.json", "stray"}), UsageError);
  CHECK_THROWS_AS(parse_command_line({"preflight", "--launcher", "telepathy"}), UsageError);
}

}  // namespace ds
