// What the command lines of jobs ask for, read from what cli/ has parsed: values that no option of
// its own can check, and defaults that depend on each other.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/verbs/preflight.h"
#include "cli/verbs/run.h"
#include "config/sections/training.h"
#include "launcher/decide/devices/device_choice.h"
#include "launcher/decide/hosts/node_list.h"
#include "launcher/decide/text/clock_time.h"
#include "launcher/process/rank_binding.h"
#include "launcher/run/job_hosts.h"

namespace ds {

namespace control {
class GenerationOrder;
}

inline constexpr const char* kGenerationOrder = "generation.order";

// How long is waited for what.
struct WaitOptions {
  std::optional<Time> hang_after;         // no step ends; none: as the steps before say
  Time join = std::chrono::seconds(60);   // for ranks that were started
  Time hosts = std::chrono::seconds(60);  // that were lost, when too few are left
  Time room = std::chrono::minutes(10);   // on a disk that was full
};

struct MetricsOptions {
  std::optional<std::filesystem::path> textfile;
  std::optional<std::string> listen;  // "127.0.0.1:9400"
};

struct RunOptions {
  std::string config;
  std::vector<std::string> overrides;  // key.path=value
  std::optional<int> num_ranks;
  std::optional<int> num_threads;
  std::optional<ResumeMode> resume;  // none: what the config says
  std::string resume_tag;            // the checkpoint to go on from; empty: the newest
  bool accept_changes = false;       // of data, seed, batch sizes since the checkpoint
  std::optional<std::filesystem::path> run_dir;
  std::optional<Time> timeout;
  std::optional<Time> time_limit;  // until somebody ends the job
  bool ask_for_time_limit = true;  // Slurm, unless time_limit is given
  int max_restarts = 3;
  std::optional<NodeCount> nodes;  // with a maximum: the world may shrink to the minimum
  int spares = 0;
  WaitOptions waits;
  HostOptions hosts;
  DeviceRequest devices;
  BindingOptions binding;
  bool audit_samples = false;
  MetricsOptions metrics;
  // Another verb makes this run and prints its own results: the run prints to standard error, and
  // does not become runs/latest, as it leaves nothing to go on with.
  bool for_another_verb = false;
  // What ranks do in place of training, without a configuration; null: they train. The run
  // directory has it in a file, too.
  std::shared_ptr<const control::GenerationOrder> generation;
  bool dry_run = false;
  bool json = false;
};

// `dslaunch preflight`: the hosts of a run, and the run itself where a config is given.
struct PreflightOptions {
  RunOptions run;  // `config` may be empty
  bool json = false;
};

// Both throw UsageError.
RunOptions run_options(const RunArgs& args);
PreflightOptions preflight_options(const PreflightArgs& args);

}  // namespace ds
