#include "launcher/run/job_hosts.h"

#include <array>

#include "core/status/error.h"
#include "core/tasks/host.h"
#include "launcher/agents/host_rendezvous.h"
#include "launcher/agents/started_place.h"
#include "launcher/decide/hosts/hostfile.h"
#include "launcher/decide/hosts/slurm_allocation.h"
#include "launcher/process/addresses.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/files/input_file.h"
#include "launcher/process/machine.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEnvironmentFile = size_t{1} << 20;
constexpr const char* kEnvironmentFile = ".deepspeed_env";
constexpr const char* kNameOfEnvironmentFile = "DS_ENV_FILE";  // another name for it
constexpr std::chrono::seconds kResolveLimit{5};
constexpr std::chrono::seconds kSshDeadline{20};
constexpr std::chrono::seconds kBatchDeadline{60};  // mpirun and srun start daemons and steps first

// A build without GPUs refuses --device cuda, except in a plan.
bool computes_on_gpus(DeviceWish wish) {
  return wish == DeviceWish::kCuda ||
         (wish == DeviceWish::kAuto && build_devices() == BuildDevices::kGpus);
}

// As many as would be started if nothing was said.
int local_slots(const Environment& environment, DeviceWish wish) {
  const auto visible = environment.find("CUDA_VISIBLE_DEVICES");
  Machine machine = this_machine(visible == environment.end() ? nullptr : visible->second.c_str());
  if (!computes_on_gpus(wish)) machine.gpus = 0;
  return choose_shape(machine, std::nullopt, std::nullopt).ranks;
}

HostRequest host_request(const HostOptions& options, const Environment& environment,
                         DeviceWish wish) {
  HostRequest request;
  request.launcher = options.launcher;
  request.include = options.include;
  request.exclude = options.exclude;
  request.num_nodes = options.num_nodes;
  request.num_gpus = options.num_gpus;
  request.environment = environment;
  request.this_host = own_host_name();
  request.on_gpus = computes_on_gpus(wish);
  if (!options.exclude.empty()) request.local_slots = local_slots(environment, wish);
  request.hostfile_name = options.hostfile.value_or(kDefaultHostfile);
  const bool local_by_name = options.launcher == "local" && !options.hostfile;
  if (options.hostfile) {
    request.hostfile_text = read_input_file(*options.hostfile, kMaxHostfileBytes);
  } else if (!local_by_name) {
    request.hostfile_text = read_input_file_if_there(kDefaultHostfile, kMaxHostfileBytes);
  }
  return request;
}

// DeepSpeed's files are for other hosts: ranks of this machine have our environment anyway. The one
// at home comes first, so that the one of this folder wins.
EnvironmentSources environment_sources(const HostOptions& options, RunnerKind kind,
                                       const std::vector<std::string>& ours,
                                       const Environment& environment) {
  EnvironmentSources sources;
  sources.ours = ours;
  sources.named = options.environment;
  if (options.environment_file) {
    sources.files.push_back({*options.environment_file,
                             read_input_file(*options.environment_file, kMaxEnvironmentFile),
                             ValuesOfFile::kLiteral});
  }
  if (options.environment_file || kind == RunnerKind::kLocal) {
    return sources;
  }
  const std::string named = value_in(environment, kNameOfEnvironmentFile);
  const fs::path name = named.empty() ? kEnvironmentFile : named;
  const std::string home = value_in(environment, "HOME");
  std::vector<fs::path> places;
  if (!home.empty() && name.is_relative()) places.push_back(fs::path(home) / name);
  places.push_back(name);
  for (const fs::path& place : places) {
    if (auto text = read_input_file_if_there(place, kMaxEnvironmentFile)) {
      sources.files.push_back({place.string(), *std::move(text)});
    }
  }
  return sources;
}

void export_variables(JobHosts& hosts, const HostOptions& options,
                      const std::vector<std::string>& ours, const Environment& environment) {
  const EnvironmentSources sources =
      environment_sources(options, hosts.choice.kind, ours, environment);
  hosts.exported = exported_environment(sources);
  std::vector<std::string>& notes = hosts.choice.notes;
  notes.insert(notes.end(), hosts.exported.notes.begin(), hosts.exported.notes.end());
  const std::string named = value_in(environment, kNameOfEnvironmentFile);
  if (!named.empty() && sources.files.empty() && hosts.choice.kind != RunnerKind::kLocal) {
    notes.push_back(
        fmt::format("{}={}: there is no such file here or at home", kNameOfEnvironmentFile, named));
  }
}

// Whether somebody has decided to train here, whatever the variables suggest.
bool hosts_are_said(const HostOptions& options, const HostChoice& choice) {
  return options.launcher != "auto" || !options.include.empty() || !options.exclude.empty() ||
         !choice.hosts.empty();
}

// This machine is about to train by itself: an error where it surely should not, else a note.
void heed_others(const Environment& variables, std::vector<std::string>& notes) {
  require_start_alone(variables);
  if (std::string note = note_of_start_alone(variables); !note.empty()) {
    notes.push_back(std::move(note));
  }
}

std::string resolve_own_address(const std::string& name) {
  const ResolvedHost resolved = resolve_hosts({name}, kResolveLimit).front();
  if (resolved.address.empty()) {
    throw UsageError(fmt::format("--master-addr {}: {}", name, resolved.error));
  }
  return resolved.address;
}

void note_local_rank(const HostOptions& options, std::vector<std::string>& notes) {
  if (options.local_rank) notes.emplace_back("--local-rank: passed over, LOCAL_RANK says the same");
}

void refuse_choice_of_hosts(const HostOptions& options, std::string_view starter) {
  const std::array<std::pair<const char*, bool>, 7> choices{{
      {"--hostfile", options.hostfile.has_value()},
      {"--launcher", options.launcher != "auto"},
      {"--launcher-args", !options.launcher_args.empty()},
      {"--include", !options.include.empty()},
      {"--exclude", !options.exclude.empty()},
      {"--num-nodes", options.num_nodes.has_value()},
      {"--num-gpus", options.num_gpus.has_value()},
  }};
  for (const auto& [name, given] : choices) {
    if (given) {
      throw UsageError(
          fmt::format("{}: {} has chosen the hosts and their slots already; leave it out, "
                      "or start dslaunch by itself",
                      name, starter));
    }
  }
}

}  // namespace

std::vector<std::string> rendezvous_addresses(const HostOptions& options) {
  return options.master_addr ? std::vector{resolve_own_address(*options.master_addr)}
                             : reachable_addresses();
}

JobHosts gather_started_hosts(const HostOptions& options,
                              const std::vector<std::string>& environment,
                              const std::string& dslaunch, std::string_view starter,
                              SlotMap slots) {
  const Environment variables = as_environment(environment);
  refuse_choice_of_hosts(options, starter);
  JobHosts out;
  // The kind is only that of names: nothing is started by mpirun or srun any more.
  out.choice.kind = slots.empty()       ? RunnerKind::kLocal
                    : starter == "srun" ? RunnerKind::kSlurm
                                        : RunnerKind::kMpi;
  out.choice.hosts = std::move(slots);
  note_local_rank(options, out.choice.notes);
  export_variables(out, options, environment, variables);
  if (out.choice.hosts.empty()) return out;
  HostAgents::Options agents;
  agents.kind = RunnerKind::kLocal;  // this host's, by ourselves; the others came
  agents.runner.dslaunch = dslaunch;
  agents.environment = environment;
  agents.path = value_in(variables, "PATH");
  if (options.master_addr) agents.coordinator_address = resolve_own_address(*options.master_addr);
  out.agents = std::move(agents);
  return out;
}

JobHosts gather_job_hosts(const HostOptions& options, const std::vector<std::string>& environment,
                          const std::string& dslaunch, DeviceWish wish) {
  const Environment variables = as_environment(environment);
  JobHosts out;
  if (options.local_rank.value_or(0) > 0) {
    throw UsageError(
        fmt::format("--local-rank {}: this is one of several, but the variables do not say which; "
                    "start them by torchrun, mpirun, srun or DeepSpeed's launcher, which set RANK, "
                    "WORLD_SIZE, LOCAL_RANK and the number of those on this host",
                    *options.local_rank));
  }
  out.choice = choose_hosts(host_request(options, variables, wish));
  note_local_rank(options, out.choice.notes);
  export_variables(out, options, environment, variables);
  if (out.choice.kind == RunnerKind::kLocal) {
    if (!hosts_are_said(options, out.choice)) heed_others(variables, out.choice.notes);
    return out;
  }
  // Slurm sets it on every node, and each agent heeds its own.
  const bool by_slurm = out.choice.kind == RunnerKind::kSlurm;
  if (!by_slurm && !value_in(variables, "CUDA_VISIBLE_DEVICES").empty()) {
    out.choice.notes.push_back(
        "CUDA_VISIBLE_DEVICES is ignored: it would mean other devices on every host; use slots");
  }
  HostAgents::Options agents;
  agents.kind = out.choice.kind;
  agents.runner = {.dslaunch = dslaunch,
                   .ssh_port = options.ssh_port,
                   .connect_timeout_s = 10,
                   .extra = split_words(options.launcher_args)};
  agents.environment = environment;
  if (by_slurm) {
    agents.runner.step_gpus = gpus_of_steps(slurm_allocation(variables), computes_on_gpus(wish));
    std::erase_if(agents.environment, [](const std::string& entry) {
      return is_gpu_request_of_tasks(std::string_view(entry).substr(0, entry.find('=')));
    });
  }
  agents.path = value_in(variables, "PATH");
  agents.deadline = agents.kind == RunnerKind::kSsh ? kSshDeadline : kBatchDeadline;
  if (options.master_addr) {
    agents.coordinator_address = resolve_own_address(*options.master_addr);
  }
  for (const HostSlots& host : out.choice.hosts) {
    agent_command(agents.kind, host.name,
                  agents.runner);  // refuses what cannot be, before all else
  }
  out.agents = std::move(agents);
  return out;
}

}  // namespace ds
