#include "launcher/actions.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "cli/verbs/agent.h"
#include "core/status/error.h"
#include "launcher/agents/agent.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/addresses.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/verbs/check.h"
#include "launcher/verbs/command_line.h"
#include "launcher/verbs/completion.h"
#include "launcher/verbs/elastic.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/env.h"
#include "launcher/verbs/explain.h"
#include "launcher/verbs/found_run.h"
#include "launcher/verbs/generate.h"
#include "launcher/verbs/init.h"
#include "launcher/verbs/man.h"
#include "launcher/verbs/preflight.h"
#include "launcher/verbs/reports/lr_range_test.h"
#include "launcher/verbs/schema.h"
#include "launcher/verbs/watch/watch.h"

namespace ds {
namespace {

struct Row {
  std::string_view verb;
  Action (*prepare)(const VerbLine& line);
};

Action train(const VerbLine& line) {
  return [options = run_options(line.values<RunArgs>())](const CommandContext& context) {
    return run_training_job(options, context);
  };
}

// The ranks of a job generate; if one process is to generate, the verb is the engine's.
Action generate(const VerbLine& line) {
  return [args = line.values<GenerateArgs>()](const CommandContext& context) {
    return run_generation_job(args, context);
  };
}

Action preflight(const VerbLine& line) {
  return [options = preflight_options(line.values<PreflightArgs>())](
             const CommandContext& context) { return run_preflight(options, context); };
}

Action check(const VerbLine& line) {
  return [options = line.values<CheckOptions>()](const CommandContext& context) {
    return run_check(options, context);
  };
}

// Returns the address by which this host was reached: sshd tells it ("CLIENT PORT SERVER PORT"),
// and Slurm tells where we were started from. Empty if neither does.
std::string own_address(const Environment& environment) {
  const auto by_slurm = environment.find("SLURM_LAUNCH_NODE_IPADDR");
  if (by_slurm != environment.end()) return local_address_towards(by_slurm->second);
  const auto by_ssh = environment.find("SSH_CONNECTION");
  std::istringstream words(by_ssh != environment.end() ? by_ssh->second : "");
  std::string client;
  std::string port;
  std::string server;
  words >> client >> port >> server;
  return server;
}

Action serve_as_agent(const VerbLine& /*line*/) {
  return [](const CommandContext& context) {
    const Environment environment = as_environment(context.environment);
    return run_agent({context.environment, own_address(environment), own_gpus(context.visible_gpus),
                      !discover_start(environment)});
  };
}

// Verbs that need nothing but their values.
template <class Values, int (*kCarryOut)(const Values&)>
Action alone(const VerbLine& line) {
  return [values = line.values<Values>()](const CommandContext&) { return kCarryOut(values); };
}

// Verbs that also take what lies around: other programs, the machine.
template <class Values, int (*kCarryOut)(const Values&, const CommandContext&)>
Action looking_around(const VerbLine& line) {
  return [values = line.values<Values>()](const CommandContext& context) {
    return kCarryOut(values, context);
  };
}

// Verbs that look at a run.
template <class Values, int (*kCarryOut)(const Values&)>
Action watching(const VerbLine& line) {
  return [values = line.values<Values>()](const CommandContext&) mutable {
    values.run = meant_run(values.run).string();
    return kCarryOut(values);
  };
}

Action top(const VerbLine& line) {
  return [values = line.values<TopOptions>()](const CommandContext& context) mutable {
    values.run = meant_run(values.run).string();
    return run_top(values, look_for(as_environment(context.environment), context.no_colour));
  };
}

constexpr std::array kRows{
    Row{"run", train},
    Row{"generate", generate},
    Row{"lr-range-test", looking_around<LrRangeTestArgs, run_lr_range_test>},
    Row{"check", check},
    Row{"preflight", preflight},
    Row{"env", looking_around<EnvOptions, run_env>},
    Row{"init", looking_around<InitOptions, run_init>},
    Row{"explain", alone<ExplainOptions, run_explain>},
    Row{"elastic", alone<ElasticVerbOptions, run_elastic>},
    Row{"schema", alone<SchemaOptions, run_schema>},
    Row{"status", watching<StatusOptions, run_status>},
    Row{"top", top},
    Row{"tail", watching<TailOptions, run_tail>},
    Row{"stack", watching<StackOptions, run_stack>},
    Row{"report", watching<ReportOptions, run_report>},
    Row{"trace", watching<TraceOptions, run_trace>},
    Row{"ctl", watching<CtlOptions, run_ctl>},
    Row{"completion", alone<CompletionOptions, run_completion>},
    Row{"man", alone<ManOptions, run_man>},
    Row{"agent", serve_as_agent},
};

}  // namespace

bool starts_ranks(const ParsedVerb& parsed) {
  const std::string_view verb = parsed.verb->name;
  if (verb == "generate") return asks_for_ranks(parsed.line->values<GenerateArgs>());
  return verb == "run" || verb == "lr-range-test";
}

Action action_for(const ParsedVerb& parsed, const std::vector<std::string>& arguments) {
  if (parsed.verb->program == Program::kEngine && !starts_ranks(parsed)) {
    return [verb = EngineVerb{arguments}](const CommandContext& context) -> int {
      become_engine(verb, context);
    };
  }
  const auto row = std::ranges::find(kRows, parsed.verb->name, &Row::verb);
  DS_CHECK(row != kRows.end(), "verb '{}': launcher/actions.cpp has no row for it",
           parsed.verb->name);
  return row->prepare(*parsed.line);
}

}  // namespace ds
