// rankd: one rank of a training job, started by dslaunch with its orders on standard input; and the
// verbs of dslaunch that need the engine. Environment variables are read here and nowhere else.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "core/error.h"
#include "core/failpoint.h"
#include "proto/build_info.h"
#include "rankd/generate.h"
#include "rankd/plan.h"
#include "rankd/session.h"
#include "rankd/training.h"

namespace ds {
namespace {

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

void add_generate(CLI::App& app, GenerateArgs& args) {
  CLI::App* verb = app.add_subcommand("generate", "Continue a prompt with a trained model");
  verb->add_option("source", args.source, "Run directory, checkpoint tag, or Hugging Face folder")
      ->required();
  verb->add_option("--prompt", args.prompt, "Text to continue")->required();
  verb->add_option("--max-tokens", args.max_tokens, "Tokens to add")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  verb->add_option("--temperature", args.temperature, "0 takes the likeliest token")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--top-k", args.top_k, "Draw from the k likeliest tokens; 0: from all")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  verb->add_option("--seed", args.seed, "Same seed, same text")->capture_default_str();
  verb->add_option("--num-threads", args.threads, "CPU threads")->check(CLI::PositiveNumber);
  verb->footer(
      "Examples:\n"
      "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
      "  dslaunch generate path/to/huggingface/folder --prompt \"Hello\" --temperature 0");
}

void add_plan(CLI::App& app, PlanArgs& args, bool& json) {
  CLI::App* verb = app.add_subcommand(
      "plan", "Memory, communication and FLOPs of a job, computed without running it");
  verb->add_option("config", args.config_path, "train.json")->required();
  verb->add_option("overrides", args.overrides, "key.path=value ...");
  verb->add_option("--num-ranks", args.num_ranks, "Ranks to plan for")->check(CLI::PositiveNumber);
  verb->add_option("--num-threads", args.threads, "CPU threads per rank")
      ->check(CLI::PositiveNumber);
  verb->add_flag("--json", json, "Print plan.json instead of a table");
  verb->footer(
      "Examples:\n"
      "  dslaunch plan train.json\n"
      "  dslaunch plan train.json --num-ranks 8 zero_optimization.stage=3 --json");
}

// `dslaunch generate ...` becomes this program, so help speaks in dslaunch's name.
int run_verb(int argc, char** argv) {
  CLI::App app("The engine verbs of dslaunch", "dslaunch");
  app.require_subcommand(1);
  GenerateArgs generate;
  generate.threads = cores();
  PlanArgs plan;
  bool json = false;
  add_generate(app, generate);
  add_plan(app, plan, json);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{} (see `dslaunch {} --help`)", error.what(),
                                 argc > 1 ? argv[1] : ""));
  }
  if (app.got_subcommand("generate")) {
    return run_generate(generate);
  }
  plan.output = json ? PlanOutput::kJson : PlanOutput::kText;
  return run_plan(plan);
}

int run(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--version") {
    fmt::print("rankd {}\n", build_id());
    return 0;
  }
  if (first == "--list-failpoints") {
    for (const std::string_view name : failpoint_names()) fmt::print("{}\n", name);
    return 0;
  }
  if (first == "--from-stdin") {
    const char* const failpoints = std::getenv("DSL_FAILPOINTS");
    return run_session(run_training, failpoints != nullptr ? failpoints : "");
  }
  return run_verb(argc, argv);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  try {
    return ds::run(argc, argv);
  } catch (const ds::Error& error) {
    fmt::print(stderr, "error: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  } catch (const std::exception& error) {
    fmt::print(stderr, "error: {} (this is a bug in rankd)\n", error.what());
    return static_cast<int>(ds::ExitCode::kInternal);
  }
}
