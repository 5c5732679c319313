#include "launcher/verbs/command_line.h"

#include <filesystem>
#include <map>

#include "cli/duration.h"
#include "core/status/error.h"
#include "launcher/decide/hosts/runner.h"
#include "launcher/report/metrics_endpoint.h"

namespace ds {
namespace {

DeviceRequest device_request(const RunArgs& args) {
  const std::map<std::string, DeviceWish> wishes{
      {"auto", DeviceWish::kAuto}, {"cpu", DeviceWish::kCpu}, {"cuda", DeviceWish::kCuda}};
  if (args.share_gpus && args.device == "cpu") {
    throw UsageError("--share-gpus: --device cpu uses none");
  }
  return {wishes.at(args.device), args.share_gpus ? GpuSharing::kAllowed : GpuSharing::kRefused};
}

// What runs and their preflight have in common.
RunOptions common_options(const RunArgs& args) {
  RunOptions options;
  options.config = args.config;
  options.overrides = args.overrides;
  options.num_ranks = args.num_ranks;
  options.num_threads = args.num_threads;
  options.accept_changes = args.accept_changes;
  if (args.run_dir && args.run_dir->empty()) throw UsageError("--run-dir: the path is empty");
  options.run_dir = args.run_dir;
  options.hosts = args.hosts;
  options.devices = device_request(args);
  if (args.hosts.launcher != "auto") runner_named(args.hosts.launcher);  // refuses what is unknown
  return options;
}

NodeCount node_count(const std::string& text) {
  const NodeCount nodes = parse_node_count(text, Elasticity::kOn);
  if (nodes.min < 1 || (nodes.max >= 0 && nodes.max < nodes.min)) {
    throw UsageError(fmt::format("--nodes {}: expected N or MIN:MAX, at least 1, ascending", text));
  }
  return nodes;
}

// A path says which run it is of, too.
void set_resume_tag(const std::string& given, const std::string& tag, RunOptions& options) {
  namespace fs = std::filesystem;
  options.resume = ResumeMode::kAuto;
  options.resume_tag = tag;
  if (given.find('/') == std::string::npos) return;
  const fs::path root =
      fs::path(given.substr(0, given.rfind(tag))).lexically_normal().parent_path();
  if (root.filename() != "checkpoints") {
    throw UsageError(fmt::format(
        "--resume {}: expected RUN_DIR/checkpoints/{}, or the name alone with --run-dir", given,
        tag));
  }
  const fs::path run = root.has_parent_path() ? root.parent_path() : fs::path(".");
  if (!options.run_dir) options.run_dir = run;
  std::error_code error;
  if (fs::weakly_canonical(*options.run_dir, error) != fs::weakly_canonical(run, error)) {
    throw UsageError(fmt::format("--resume {}: it is not a checkpoint of --run-dir {}", given,
                                 options.run_dir->string()));
  }
}

void set_resume(const std::string& given, RunOptions& options) {
  const std::map<std::string, ResumeMode> modes{{"auto", ResumeMode::kAuto},
                                                {"required", ResumeMode::kRequired},
                                                {"never", ResumeMode::kNever}};
  if (const auto mode = modes.find(given); mode != modes.end()) {
    options.resume = mode->second;
  } else if (const std::optional<std::string> tag = checkpoint_named(given)) {
    set_resume_tag(given, *tag, options);
  }
}

void set_lifetime(const RunArgs& args, RunOptions& options) {
  if (args.resume) set_resume(*args.resume, options);
  options.timeout = args.timeout;
  if (args.time_limit) {
    options.ask_for_time_limit = false;
    if (*args.time_limit != "none") options.time_limit = parse_duration(*args.time_limit);
  }
  options.max_restarts = args.max_restarts;
  options.waits.hang_after = args.hang_after;
  options.waits.join = args.join_timeout.value_or(options.waits.join);
  const auto patience = [](const std::string& given) {
    return given == "0" ? Time::zero() : parse_duration(given);
  };
  if (args.wait_for_hosts) options.waits.hosts = patience(*args.wait_for_hosts);
  if (args.wait_for_room) options.waits.room = patience(*args.wait_for_room);
  if (args.nodes) options.nodes = node_count(*args.nodes);
  options.spares = args.spares;
  if (options.hosts.num_nodes && options.nodes) {
    throw UsageError("--nodes and --num-nodes both say how many hosts; give one of them");
  }
}

}  // namespace

RunOptions run_options(const RunArgs& args) {
  RunOptions options = common_options(args);
  set_lifetime(args, options);
  options.binding.bind = args.binding.bind;
  if (args.binding.cores) options.binding.cores = parse_core_list(*args.binding.cores);
  options.binding.report = args.binding.report;
  options.audit_samples = args.audit_samples;
  if (args.metrics.listen) MetricsEndpoint::check(*args.metrics.listen);
  options.metrics.listen = args.metrics.listen;
  if (args.metrics.textfile)
    options.metrics.textfile = std::filesystem::absolute(*args.metrics.textfile);
  options.dry_run = args.dry_run;
  options.json = args.json;
  return options;
}

PreflightOptions preflight_options(const PreflightArgs& args) {
  return {common_options(args.run), args.json};
}

}  // namespace ds
