// What the command line, the files it names and the environment say about the hosts of a job, put
// together before anything is started.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/hosts.h"
#include "launcher/agents/host_agents.h"
#include "launcher/decide/devices/device_choice.h"
#include "launcher/decide/hosts/host_choice.h"
#include "launcher/process/files/environment_list.h"

namespace ds {

inline constexpr const char* kDefaultHostfile = "/job/hostfile";  // DeepSpeed's

struct JobHosts {
  HostChoice choice;
  ExportedVariables exported;                 // for ranks on other hosts
  std::optional<HostAgents::Options> agents;  // none: the ranks run here, started by ourselves
};

// `environment` is ours, "NAME=value"; `dslaunch` our own absolute path; what ranks shall compute
// on decides how many an allocation of Slurm and this machine take. Throws UsageError, also for a
// process that is one of many and does not know which (require_start_alone()), and InputMissing.
JobHosts gather_job_hosts(const HostOptions& options, const std::vector<std::string>& environment,
                          const std::string& dslaunch, DeviceWish wish);

// For a job whose dslaunch mpirun or srun has started: `slots` are those hosts, in the order of
// their first rank, with their slots; empty for this machine alone. Throws UsageError where the
// options choose hosts, which the starter has done.
JobHosts gather_started_hosts(const HostOptions& options,
                              const std::vector<std::string>& environment,
                              const std::string& dslaunch, std::string_view starter, SlotMap slots);

// Returns where the first dslaunch can be met: --master-addr, or every address of this machine.
std::vector<std::string> rendezvous_addresses(const HostOptions& options);

}  // namespace ds
