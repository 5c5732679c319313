// `dslaunch [run] train.json`: train on this machine, or on the hosts that are named.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/hosts.h"

namespace ds {

struct BindingArgs {
  bool bind = false;
  std::optional<std::string> cores;
  bool report = false;
};

struct MetricsArgs {
  std::optional<std::string> listen;
  std::optional<std::string> textfile;
};

struct RunArgs {
  std::string config;
  std::vector<std::string> overrides;  // key.path=value
  std::optional<int> num_ranks;
  std::optional<int> num_threads;
  std::optional<std::string> resume;  // auto, required, never, or a checkpoint by name or path
  bool accept_changes = false;        // of data, seed, batch sizes since the checkpoint
  std::optional<std::string> run_dir;
  std::optional<std::chrono::nanoseconds> timeout;
  std::optional<std::string> time_limit;  // a duration, or none
  int max_restarts = 3;
  std::optional<std::string> wait_for_hosts;  // a duration, or 0
  std::optional<std::string> wait_for_room;   // likewise
  std::optional<std::chrono::nanoseconds> hang_after;
  std::optional<std::chrono::nanoseconds> join_timeout;
  std::optional<std::string> nodes;  // N or MIN:MAX
  int spares = 0;
  HostOptions hosts;
  std::string device = "auto";  // auto, cpu, cuda
  bool share_gpus = false;
  BindingArgs binding;
  bool audit_samples = false;
  MetricsArgs metrics;
  bool dry_run = false;
  bool json = false;
};

void describe_run(VerbApp& app, RunArgs& values);
// "global_step6" of "runs/mine/checkpoints/global_step6/"; nothing: the value names no checkpoint.
std::optional<std::string> checkpoint_named(std::string_view value);
// --device and --share-gpus, which preflight has, too.
void describe_devices(VerbApp& app, RunArgs& values);

// What --accept-changes of run and preflight says.
inline constexpr const char* kAcceptChanges =
    "Go on from a checkpoint although data, seed, batch size or sequence length have changed since";

}  // namespace ds
