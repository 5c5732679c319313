#include "cli/command_line.h"

#include "cli/verbs/check.h"
#include "cli/verbs/convert.h"
#include "cli/verbs/data/tokenize.h"
#include "cli/verbs/elastic.h"
#include "cli/verbs/eval.h"
#include "cli/verbs/explain.h"
#include "cli/verbs/generate.h"
#include "cli/verbs/merge.h"
#include "cli/verbs/plan.h"
#include "cli/verbs/preflight.h"
#include "cli/verbs/run.h"
#include "cli/verbs/schema.h"
#include "cli/verbs/watch/ctl.h"
#include "cli/verbs/watch/status.h"
#include "cli/verbs/watch/tail.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

template <class Values>
Values values_of(const std::vector<std::string>& arguments) {
  return std::get<ParsedVerb>(parse_line(arguments)).line->values<Values>();
}

}  // namespace

TEST_CASE("a config alone is a run with defaults", "[cli]") {
  const auto run = values_of<RunArgs>({"train.json"});
  CHECK(run.config == "train.json");
  CHECK(run.overrides.empty());
  CHECK_FALSE(run.num_ranks);
  CHECK_FALSE(run.num_threads);
  CHECK_FALSE(run.resume);
  CHECK_FALSE(run.run_dir);
  CHECK_FALSE(run.timeout);
  CHECK_FALSE(run.dry_run);
}

TEST_CASE("options are taken before, between and after the config and its overrides", "[cli]") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {"--num-ranks", "3", "train.json", "a.b=1", "c=-2", "--resume", "required"},
           {"train.json", "--num-ranks", "3", "a.b=1", "--resume=required", "c=-2"},
           {"run", "train.json", "a.b=1", "c=-2", "--num-ranks=3", "--resume", "required"}}) {
    const auto run = values_of<RunArgs>(arguments);
    CHECK(run.config == "train.json");
    CHECK(run.overrides == std::vector<std::string>{"a.b=1", "c=-2"});
    CHECK(run.num_ranks == 3);
    CHECK(run.resume == "required");
  }
}

TEST_CASE("overrides may add and remove keys", "[cli]") {
  CHECK(values_of<RunArgs>({"t.json", "+a.b=1", "++c=2", "~d.e", R"(f={"g": [1]})"})
            .overrides.size() == 4);
}

TEST_CASE("wrong command lines are usage errors", "[cli]") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {},
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
           {"explain", "t.json", "one", "two"},
           {"check", "t.json", "stray"},
           {"preflight", "train.json", "stray"},
           {"plan", "train.json", "stray"},
           {"plan", "train.json", "--device-memory", "much"},
           {"plan", "train.json", "--host-memory", "1GiB"},
           {"plan", "t.json", "--suggest", "--device-memory", "1GiB", "--host-memory", "1GiB"},
           {"plan", "t.json", "--num-hosts", "2"},
           {"plan", "t.json", "--num-ranks", "3", "--num-hosts", "2"},
           {"plan", "t.json", "--num-ranks", "2", "--network", "1GB"},
           {"plan", "t.json", "--num-ranks", "2", "--num-hosts", "2", "--network", "fast"},
           {"generate"},
           {"generate", "folder", "--top-p", "0"},
           {"generate", "folder", "--top-p", "1.5"},
           {"generate", "folder", "--min-p", "-0.1"},
           {"generate", "folder", "--min-p", "1.1"},
           {"generate", "folder", "--repetition-penalty", "0"},
           {"generate", "folder", "--num-samples", "0"},
           {"generate", "folder", "--logprobs", "-1"},
           {"generate", "folder", "--logprobs"},
           {"generate", "folder", "--dtype", "int8"},
           {"generate", "folder", "--device", "gpu"},
           {"merge", "adapters"},
           {"merge", "adapters", "out", "--to", "universal"},
           {"merge", "adapters", "out", "--tag", "global_step3"},
           {"eval", "folder"},
           {"eval", "--data", "a.txt"},
           {"eval", "folder", "--data", "a.txt", "--stride", "0"},
           {"eval", "folder", "--embed"},
           {"eval", "folder", "--embed", "--prompts", "a", "--data", "a.txt"},
           {"eval", "folder", "--embed", "--prompts", "a", "--stride", "2"},
           {"eval", "folder", "--embed", "--prompts", "a", "--pooling", "max"},
           {"eval", "folder", "--embed", "--prompts", "a", "--label", "l"},
           {"eval", "folder", "--embed", "--prompts", "a", "--text-pair", "p"},
           {"eval", "folder", "--data", "a.txt", "--prompts", "a"},
           {"eval", "folder", "--data", "a.txt", "--lines"},
           {"eval", "folder", "--data", "a.txt", "--pooling", "mean"},
           {"eval", "folder", "--data", "a.txt", "--normalize", "no"},
           {"tokenize", "text"},
           {"tokenize", "--tokenizer", "byte", "--count", "--decode"},
           {"tokenize", "--tokenizer", "byte", "--file", "f", "--output", ""},
           {"tokenize", "--tokenizer", "byte", "--file", "f", "--output", "d/"},
           {"tokenize", "--tokenizer", "byte", "--file", "f", "--output", "d/.."},
           {"tokenize", "--tokenizer", "byte", "--file", "f", "--output", "x.idx"},
           {"agent", "stray"},
           {"ctl"},
           {"ctl", "dance"},
           {"status", "--json", "--prometheus"}}) {
    CHECK_THROWS_AS(parse_line(arguments), UsageError);
  }
}

TEST_CASE("help is text", "[cli]") {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--help"},
                                             {"-h"},
                                             {"help"},
                                             {"run", "--help"},
                                             {"t.json", "--help"},
                                             {"generate", "--help"}}) {
    CHECK_FALSE(std::get<InfoText>(parse_line(arguments)).text.empty());
  }
}

TEST_CASE("verbs of the engine are parsed before the engine starts", "[cli]") {
  const auto parsed =
      std::get<ParsedVerb>(parse_line({"generate", "runs/latest", "--prompt", "--odd"}));
  CHECK(parsed.verb->program == Program::kEngine);
  CHECK(parsed.line->values<GenerateArgs>().prompts == std::vector<std::string>{"--odd"});
  CHECK(values_of<PlanArgs>({"plan", "t.json", "--json", "a=1"}).json);
  CHECK(
      values_of<PlanArgs>({"plan", "t.json", "--device-memory", "80GiB", "--nvme", "4 TiB"}).nvme ==
      "4 TiB");
  const auto suggest = values_of<PlanArgs>(
      {"plan", "t.json", "--suggest", "--num-ranks", "8", "--num-hosts", "2", "--network=1GB"});
  CHECK(suggest.suggest);
  CHECK(suggest.ranks_of_host() == 4);
}

TEST_CASE("the model of adapters is named in the same way by all verbs that take them", "[cli]") {
  CHECK(values_of<MergeArgs>({"merge", "a", "b", "--base", "m"}).base == "m");
  CHECK_FALSE(values_of<MergeArgs>({"merge", "a", "b"}).base);
  CHECK(values_of<ConvertArgs>({"convert", "a", "b", "--base", "m"}).base == "m");
  CHECK(values_of<GenerateArgs>({"generate", "a", "--base", "m"}).base == "m");
  CHECK(values_of<EvalArgs>({"eval", "a", "--data", "t", "--base", "m"}).base == "m");
}

TEST_CASE("texts and files may be given several times, each with its own flag", "[cli]") {
  const auto generate = values_of<GenerateArgs>(
      {"generate", "--prompt", "a", "--stop", ".", "--prompt", "-", "--stop", "b c", "runs/x"});
  CHECK(generate.source == "runs/x");
  CHECK(generate.prompts == std::vector<std::string>{"a", "-"});
  CHECK(generate.stops == std::vector<std::string>{".", "b c"});
  CHECK(values_of<GenerateArgs>({"generate", "runs/x"}).prompts.empty());

  const auto eval =
      values_of<EvalArgs>({"eval", "runs/x", "--data", "a.txt", "b.jsonl", "--stride", "8"});
  CHECK(eval.data == std::vector<std::string>{"a.txt", "b.jsonl"});
  CHECK(eval.stride == 8);
  CHECK_FALSE(eval.length);
  CHECK_FALSE(eval.embed.embeds);
  const auto embed = values_of<EvalArgs>({"eval", "runs/x", "--embed", "--prompts", "a.jsonl",
                                          "--pooling", "last", "--normalize", "yes"});
  CHECK(embed.embed.embeds);
  CHECK(embed.embed.texts == "a.jsonl");
  CHECK(embed.embed.pooling == "last");
  CHECK(embed.embed.normalize == "yes");

  const auto tokenize =
      values_of<TokenizeArgs>({"tokenize", "--tokenizer", "byte", "--file", "f", "one", "two"});
  CHECK(tokenize.texts == std::vector<std::string>{"one", "two"});
  CHECK(tokenize.files == std::vector<std::string>{"f"});
  const std::vector<std::string> lists{"[a,b]", "[]", "[[1], [2]]"};
  CHECK(values_of<TokenizeArgs>({"tokenize", "--tokenizer", "[t]", "[a,b]", "[]", "[[1], [2]]"})
            .texts == lists);
  CHECK(values_of<TokenizeArgs>({"tokenize", "--tokenizer", "[t]", "--file", "[f]"}).tokenizer ==
        "[t]");
}

TEST_CASE("verbs about the configuration have their own options", "[cli]") {
  const auto check = values_of<CheckOptions>({"check", "t.json", "--num-ranks", "4", "a.b=1"});
  CHECK(check.config == "t.json");
  CHECK(check.num_ranks == 4);
  CHECK(check.overrides == std::vector<std::string>{"a.b=1"});
  CHECK_FALSE(values_of<CheckOptions>({"check", "t.json"}).num_ranks);

  const auto explain =
      values_of<ExplainOptions>({"explain", "t.json", "a=1", "zero_optimization.stage", "~b"});
  CHECK(explain.key == "zero_optimization.stage");
  CHECK(explain.overrides == std::vector<std::string>{"a=1", "~b"});

  const auto elastic = values_of<ElasticVerbOptions>({"elastic", "t.json", "-w", "16", "--json"});
  CHECK(elastic.world_size == 16);
  CHECK(elastic.json);

  CHECK_FALSE(values_of<SchemaOptions>({"schema"}).markdown);
  CHECK(values_of<SchemaOptions>({"schema", "--markdown"}).markdown);
}

TEST_CASE("the verbs that look at a run are parsed", "[cli]") {
  const auto tail = values_of<TailOptions>({"tail", "-f", "runs/x", "--rank", "3"});
  CHECK(tail.follow);
  CHECK(tail.rank == 3);
  CHECK(tail.run == "runs/x");
  const auto ctl = values_of<CtlOptions>({"ctl", "pause"});
  CHECK(ctl.order == "pause");
  CHECK(ctl.run == "runs/latest");
}

TEST_CASE("preflight takes the hosts of a run, with or without a config", "[cli]") {
  CHECK(values_of<PreflightArgs>({"preflight"}).run.config.empty());
  const auto full = values_of<PreflightArgs>(
      {"preflight", "--hostfile", "hosts", "train.json", "a.b=1", "--run-dir", "r", "--json"});
  CHECK(full.run.config == "train.json");
  CHECK(full.run.overrides == std::vector<std::string>{"a.b=1"});
  CHECK(full.run.hosts.hostfile == "hosts");
  CHECK(full.run.run_dir == "r");
  CHECK(full.json);
}

}  // namespace ds
