#include "launcher/verbs/preflight.h"

#include <rapidjson/document.h>

#include <cstdio>
#include <filesystem>

#include "cli/text/terminal_text.h"
#include "core/status/error.h"
#include "launcher/agents/host_world.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/verbs/engine_verb.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// Weights and two moments in fp32: what a checkpoint holds with the optimizers that hold most.
constexpr int64_t kCheckpointBytesPerParameter = 12;
constexpr int64_t kMomentBytesPerParameter = 8;  // which frozen parameters have none of

std::string plan_text_of(const RunOptions& options, const WorldShape& shape, Device device,
                         const CommandContext& context) {
  std::vector<std::string> arguments = plan_verb(options, shape, device).arguments;
  arguments.emplace_back("--json");
  return engine_output(arguments, context, "planning the job");
}

PreflightNeeds needs_of_plan(const std::string& plan) {
  PreflightNeeds needs;
  rapidjson::Document document;
  document.Parse<rapidjson::kParseIterativeFlag>(plan.data(), plan.size());
  if (document.HasParseError() || !document.IsObject() || !document.HasMember("parameters") ||
      !document["parameters"].IsInt64()) {
    throw InternalError("planning the job: rankd did not print a plan");
  }
  needs.checkpoint_bytes = document["parameters"].GetInt64() * kCheckpointBytesPerParameter;
  if (document.HasMember("frozen_parameters") && document["frozen_parameters"].IsInt64()) {
    const bool are_saved = !document.HasMember("frozen_in_checkpoints") ||
                           !document["frozen_in_checkpoints"].IsBool() ||
                           document["frozen_in_checkpoints"].GetBool();
    needs.checkpoint_bytes -= document["frozen_parameters"].GetInt64() *
                              (are_saved ? kMomentBytesPerParameter : kCheckpointBytesPerParameter);
  }
  if (document.HasMember("ranks") && document["ranks"].IsArray()) {
    for (const auto& rank : document["ranks"].GetArray()) {
      int64_t of_host = 0;
      for (const char* const tier : {"host_bytes_peak", "pinned_bytes_peak"}) {
        if (rank.HasMember(tier) && rank[tier].IsInt64()) of_host += rank[tier].GetInt64();
      }
      needs.memory_bytes = std::max(needs.memory_bytes, of_host);
      if (rank.HasMember("device_bytes_peak") && rank["device_bytes_peak"].IsInt64()) {
        needs.gpu_memory_bytes =
            std::max(needs.gpu_memory_bytes, rank["device_bytes_peak"].GetInt64());
      }
    }
  }
  return needs;
}

HostSlots this_machine_with(int ranks) {
  HostSlots out;
  for (int slot = 0; slot < ranks; ++slot) out.slots.push_back(slot);
  return out;
}

// Ranks of the whole job and, where they are known, threads of each.
WorldShape shape_of_job(const RunOptions& options, const SlotMap& hosts, const Machine& machine,
                        const JobConfig* config) {
  if (hosts.empty()) {
    RunOptions local = options;
    if (local.hosts.num_gpus) local.num_ranks = local.hosts.num_gpus;
    return config != nullptr ? local_shape(*config, machine, local.num_ranks, local.num_threads)
                             : choose_shape(machine, local.num_ranks, local.num_threads);
  }
  size_t ranks = 0;
  for (const HostSlots& host : hosts) ranks += host.slots.size();
  return {static_cast<int>(ranks), options.num_threads.value_or(1)};
}

std::vector<SurveyedHost> survey(const JobHosts& hosts, const SlotMap& slots,
                                 const VisibleGpus& gpus, const SurveyOrders& orders) {
  if (!hosts.agents) {
    std::vector<SurveyedHost> out;
    for (const HostSlots& host : slots) out.push_back(survey_this_machine(host, gpus, orders));
    return out;
  }
  std::vector<std::string> names;
  for (const HostSlots& host : slots) names.push_back(host.name);
  HostAgents agents(*hosts.agents);
  const HostAgents::Outcome reached = agents.try_reach(names);
  return survey_hosts(slots, reached, orders);
}

// The short form of `dslaunch preflight`: what costs no time.
PreflightNeeds launch_needs(const TrainingJob& job, const RunOptions& options,
                            const std::string& directory) {
  PreflightNeeds needs;
  needs.world_size = job.shape.ranks;
  needs.threads = job.shape.threads;
  needs.checkpoint_bytes = newest_checkpoint_bytes(directory);
  needs.uses_gpus = job.device != Device::cpu() && build_devices() == BuildDevices::kGpus;
  needs.gpu_sharing = options.devices.sharing;
  needs.slot_gpus = job.slot_gpus;
  return needs;
}

SlotMap slots_of(const std::vector<RankPlacement>& world) {
  SlotMap slots;
  for (const std::string& host : hosts_of(world)) {
    slots.push_back({host, {}});
    for (const RankPlacement& place : world) {
      if (place.host == host) slots.back().slots.push_back(place.slot);
    }
  }
  return slots;
}

}  // namespace

void require_fit_machine(const TrainingJob& job, const RunOptions& options,
                         const std::vector<RankPlacement>& world, const CommandContext& context) {
  const std::string directory = future_run_directory(options);
  SurveyedHost surveyed =
      survey_this_machine(slots_of(world).front(), own_gpus(context.visible_gpus),
                          {.directory = directory,
                           .nvme_paths = job.config.nvme_paths,
                           .program = context.rank_program});
  // That it cannot be written is a storage error, which opening it reports.
  surveyed.facts->mutable_directory()->clear_error();
  refuse_unfit(launch_needs(job, options, directory), {surveyed});
}

FitHosts require_fit_hosts(const TrainingJob& job, const RunOptions& options,
                           const std::vector<RankPlacement>& world,
                           const std::vector<ReachedHost>& reached, const std::string& program) {
  const std::string directory = future_run_directory(options);
  PreflightNeeds needs = launch_needs(job, options, directory);
  needs.shares_directory = job.config.shares_directory;
  const std::vector<SurveyedHost> surveyed = survey_hosts(
      slots_of(world), {reached, {}},
      {.directory = directory, .nvme_paths = job.config.nvme_paths, .program = program});
  FitHosts out{.notes = refuse_unfit(needs, surveyed)};
  for (const SurveyedHost& host : surveyed) {
    if (host.facts) out.newest_epoch = std::max(out.newest_epoch, host.facts->newest_epoch());
  }
  return out;
}

std::string future_run_directory(const RunOptions& options) {
  return fs::absolute(options.run_dir.value_or("runs")).lexically_normal().string();
}

std::vector<std::string> refuse_unfit(const PreflightNeeds& needs,
                                      const std::vector<SurveyedHost>& hosts) {
  const std::vector<Finding> findings = judge_hosts(needs, hosts);
  if (any_bad(findings)) {
    std::vector<std::string> bad;
    for (const Finding& finding : findings) {
      if (finding.level == FindingLevel::kBad) bad.push_back(finding.host);
    }
    throw HostsUnusable(preflight_text(hosts, findings), bad);
  }
  std::vector<std::string> notes;
  for (const Finding& finding : findings) {
    if (!finding.host.empty()) {
      notes.push_back(fmt::format("{}: {} ({})", finding.host, finding.what, finding.fix));
    }
  }
  return notes;
}

int run_preflight(const PreflightOptions& options, const CommandContext& context) {
  const RunOptions& run = options.run;
  const JobHosts hosts =
      gather_job_hosts(run.hosts, context.environment, context.own_program, run.devices.wish);
  require_device(run.devices.wish, build_devices());
  Machine machine = this_machine(context.visible_gpus);
  if (run.devices.wish == DeviceWish::kCpu) machine.gpus = 0;
  std::optional<JobConfig> config;
  if (!run.config.empty()) config = load_job_config(run.config, run.overrides);
  const WorldShape shape =
      shape_of_job(run, hosts.choice.hosts, machine, config ? &*config : nullptr);
  PreflightNeeds needs;
  const bool on_gpus = machine.gpus > 0 || run.devices.wish == DeviceWish::kCuda;
  const Device device = on_gpus ? Device::cuda(0) : Device::cpu();
  if (config) needs = needs_of_plan(plan_text_of(run, shape, device, context));
  needs.world_size = shape.ranks;
  needs.threads = shape.threads;
  needs.shares_directory = hosts.agents.has_value() && (!config || config->shares_directory);
  needs.uses_gpus = build_devices() == BuildDevices::kGpus && on_gpus;
  needs.gpu_sharing = run.devices.sharing;
  if (!needs.uses_gpus) {  // what a device would have is the machine's memory, too
    needs.memory_bytes += needs.gpu_memory_bytes;
    needs.gpu_memory_bytes = 0;
  }
  SurveyOrders orders{.directory = future_run_directory(run),
                      .nvme_paths = config ? config->nvme_paths : std::vector<std::string>{},
                      .program = context.rank_program,
                      .depth = SurveyDepth::kFull,
                      .coordinator_port = run.hosts.master_port};
  SlotMap slots = hosts.choice.hosts;
  if (slots.empty()) slots.push_back(this_machine_with(shape.ranks));
  if (!hosts.agents) {
    for (HostSlots& host : slots)
      host.name.clear();  // it is this machine, whatever the hostfile calls it
  }
  const std::vector<SurveyedHost> surveyed =
      survey(hosts, slots, own_gpus(context.visible_gpus), orders);
  const std::vector<Finding> findings = judge_hosts(needs, surveyed);
  say("{}\n",
      options.json ? preflight_json(surveyed, findings) : preflight_text(surveyed, findings));
  return any_bad(findings) ? static_cast<int>(ExitCode::kClusterUnusable) : 0;
}

}  // namespace ds
