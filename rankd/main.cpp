// rankd: one rank of a training job, started by dslaunch with its orders on standard input; and the
// verbs of dslaunch that need the engine. Environment variables are read here and nowhere else, but
// for HOME (core/files/home.h).
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "cli/command_line.h"
#include "cli/failure.h"
#include "cli/text/terminal_text.h"
#include "core/status/error.h"
#include "core/status/failpoint.h"
#include "core/tasks/task_limits.h"
#include "proto/build_info.h"
#include "rankd/control/session.h"
#include "rankd/generation_job.h"
#include "rankd/training.h"
#include "rankd/verbs/data/look_at_data.h"
#include "rankd/verbs/evaluate.h"
#include "rankd/verbs/generate.h"
#include "rankd/verbs/input_facts.h"
#include "rankd/verbs/inventory.h"
#include "rankd/verbs/look.h"
#include "rankd/verbs/plan.h"
#include "rankd/verbs/profile.h"
#include "rankd/verbs/storage/io.h"
#include "rankd/verbs/storage/nvme_tune.h"
#include "rankd/verbs/tokenize.h"
#include "rankd/verbs/weights/convert.h"
#include "rankd/verbs/weights/inspect.h"
#include "rankd/verbs/weights/model_look.h"

namespace ds {
namespace {

int cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }

// Verbs whose threads are all cores where nobody says how many.
template <class Args, int (*kCarryOut)(const Args&)>
int on_cores(const VerbLine& line) {
  Args args = line.values<Args>();
  if (args.threads == 0) args.threads = cores();
  return kCarryOut(args);
}

int tokenize(const VerbLine& line) {
  TokenizeArgs args = line.values<TokenizeArgs>();
  if (!args.to_files.threads) args.to_files.threads = cores();
  return run_tokenize(args);
}

int convert(const VerbLine& line) { return run_convert(line.values<ConvertArgs>()); }

int merge(const VerbLine& line) { return run_merge(line.values<MergeArgs>()); }

int io(const VerbLine& line) { return run_io(line.values<IoArgs>()); }

int nvme_tune(const VerbLine& line) { return run_nvme_tune(line.values<NvmeTuneArgs>()); }

int inspect(const VerbLine& line) { return run_inspect(line.values<InspectArgs>()); }

int look_at_data(const VerbLine& line) { return run_look_at_data(line.values<LookAtDataArgs>()); }

// dslaunch itself looks at a train.json.
int check(const VerbLine& line) { return run_check_of_folder(line.values<CheckOptions>()); }

int plan(const VerbLine& line) { return run_plan(line.values<PlanArgs>()); }

struct Row {
  std::string_view verb;
  int (*execute)(const VerbLine& line);
};

constexpr std::array kRows{Row{"check", check},
                           Row{"convert", convert},
                           Row{"eval", on_cores<EvalArgs, run_evaluate>},
                           Row{"generate", on_cores<GenerateArgs, run_generate>},
                           Row{"inspect", inspect},
                           Row{"io", io},
                           Row{"look-at-data", look_at_data},
                           Row{"merge", merge},
                           Row{"nvme-tune", nvme_tune},
                           Row{"plan", plan},
                           Row{"profile", on_cores<ProfileArgs, run_profile>},
                           Row{"tokenize", tokenize}};

// What verbs log names files and keys of others.
class TerminalSink final : public spdlog::sinks::stderr_color_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    const std::string text =
        terminal_text(std::string_view(message.payload.data(), message.payload.size()));
    spdlog::details::log_msg shown = message;
    shown.payload = text;
    spdlog::sinks::stderr_color_sink_mt::log(shown);
  }
};

// `dslaunch generate ...` becomes this program, so help speaks in dslaunch's name.
int run_verb(const std::vector<std::string>& arguments) {
  const ParsedLine line = parse_line(arguments);
  if (const auto* const info = std::get_if<InfoText>(&line)) {
    say("{}", info->text);
    return 0;
  }
  const auto& parsed = std::get<ParsedVerb>(line);
  const auto row = std::ranges::find(kRows, parsed.verb->name, &Row::verb);
  if (row == kRows.end()) {
    throw UsageError(
        fmt::format("rankd is started by dslaunch: `dslaunch {} --help`", parsed.verb->name));
  }
  // Standard output is the answer's alone.
  spdlog::set_default_logger(
      std::make_shared<spdlog::logger>("dslaunch", std::make_shared<TerminalSink>()));
  return row->execute(*parsed.line);
}

// What dslaunch asks when only the engine knows; whoever asked and was killed wants no answer.
int answer(const std::string& launcher_pid, const std::vector<std::string>& question) {
  die_with_launcher(std::atoll(launcher_pid.c_str()));
  const std::string& what = question.front();
  if (what == "--inventory") return run_inventory();
  if (what == "--facts-of" && question.size() == 2) return print_input_facts(question[1]);
  if (what == "--format-of" && question.size() > 1) {
    return print_format_of(std::span(question).subspan(1));
  }
  if (what == "--look" && question.size() > 3) {
    return run_look({.ranks = std::atoi(question[1].c_str()),
                     .has_limits = question[2] == "limits",
                     .config_path = question[3],
                     .overrides = {question.begin() + 4, question.end()}});
  }
  if (what == "--look-generation" && question.size() == 3)
    return look_at_generation(question[1], std::atoi(question[2].c_str()));
  return run_verb(question);
}

int run(int argc, char** argv) {
  const std::string first = argc > 1 ? argv[1] : "";
  if (first == "--version") {
    say("rankd {}\n", build_id());
    return 0;
  }
  if (first == "--list-failpoints") {
    for (const std::string_view name : failpoint_names()) say("{}\n", name);
    return 0;
  }
  if (first == "--from-stdin") {
    const char* const failpoints = std::getenv("DSL_FAILPOINTS");
    const auto work = [](const JobPlan& plan, ControlClient& control, TcpListener& listener) {
      return plan.generation.empty() ? run_training(plan, control, listener)
                                     : run_generation(plan, control, listener);
    };
    return run_session(work, failpoints != nullptr ? failpoints : "");
  }
  if (first == "--answer" && argc > 3) return answer(argv[2], {argv + 3, argv + argc});
  return run_verb({argv + 1, argv + argc});
}

int end_by(const Error& error, const std::vector<std::string>& arguments) {
  const int code = static_cast<int>(error.exit_code());
  say(stderr, "error: {}\n", error.what());
  if (wants_json(arguments)) say("{}", failure_json(error.what(), code));
  return code;
}

int end_by_bug(const std::exception& error) {
  say(stderr, "error: {} (this is a bug in rankd)\n", error.what());
  return static_cast<int>(ExitCode::kInternal);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  try {
    return ds::run(argc, argv);
  } catch (const ds::Error& error) {
    return ds::end_by(error, arguments);
  } catch (const std::system_error& error) {
    if (const auto no_task = ds::no_further_task(error)) return ds::end_by(*no_task, arguments);
    return ds::end_by_bug(error);
  } catch (const std::exception& error) {
    return ds::end_by_bug(error);
  }
}
