// The command line of dslaunch, parsed into values. Options may stand before and after the config.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/training_config.h"
#include "launcher/job_hosts.h"
#include "launcher/rank_binding.h"
#include "launcher/membership.h"
#include "launcher/node_list.h"
#include "launcher/verbs/check.h"
#include "launcher/verbs/elastic.h"
#include "launcher/verbs/explain.h"
#include "launcher/verbs/schema.h"
#include "launcher/verbs/watch.h"

namespace CLI {
class App;
}

namespace ds {

struct RunOptions {
  std::string config;
  std::vector<std::string> overrides;  // key.path=value
  std::optional<int> num_ranks;
  std::optional<int> num_threads;
  std::optional<ResumeMode> resume;  // none: what the config says
  bool accept_changes = false;       // of data, seed, batch sizes since the checkpoint
  std::optional<std::filesystem::path> run_dir;
  std::optional<Time> timeout;
  std::optional<Time> time_limit;  // until somebody ends the job
  bool ask_for_time_limit = true;  // Slurm, unless time_limit is given
  int max_restarts = 3;
  std::optional<NodeCount> nodes;  // with a maximum: the world may shrink to the minimum
  int spares = 0;
  std::optional<Time> hang_after;
  Time wait_for_hosts = std::chrono::seconds(60);  // that were lost, when too few are left
  HostOptions hosts;
  BindingOptions binding;
  bool audit_samples = false;
  std::optional<std::filesystem::path> metrics_textfile;
  std::optional<std::string> metrics_listen;  // "127.0.0.1:9400"
  bool dry_run = false;
  bool json = false;
};

// `dslaunch preflight`: the hosts of a run, and the run itself where a config is given.
struct PreflightOptions {
  RunOptions run;  // `config` may be empty
  bool json = false;
};

// A verb that rankd carries out: its arguments are passed on as they are.
struct EngineVerb {
  std::vector<std::string> arguments;  // the verb first
};

// Text to print, then exit 0: help or version.
struct InfoText {
  std::string text;
};

// `dslaunch agent`, which no user types.
struct AgentOptions {};

using CommandLine = std::variant<RunOptions, PreflightOptions, AgentOptions, CheckOptions, ExplainOptions, ElasticVerbOptions,
                                 SchemaForm, WatchCommand, EngineVerb, InfoText>;

// `arguments` without argv[0]. Throws UsageError.
CommandLine parse_command_line(const std::vector<std::string>& arguments);

// For verbs that are described elsewhere: parses `arguments` into what `app` was told to fill; the help text
// where that was asked for. Throws UsageError.
std::optional<InfoText> parse_into(CLI::App& app, std::vector<std::string> arguments);

// "90", "90s", "10m", "2h". Throws UsageError.
Time parse_duration(std::string_view text);

}  // namespace ds
