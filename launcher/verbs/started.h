// dslaunch as one of many that mpirun, srun or torchrun has started. The one of rank 0 becomes the
// launcher and gathers the others in a StartedGroup; the first of each other host becomes that
// host's agent; the rest stand for their slots and wait for the exit code.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/agents/host_leader.h"
#include "launcher/agents/host_rendezvous.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/starter_watch.h"
#include "launcher/run/job_devices.h"
#include "launcher/run/job_hosts.h"
#include "launcher/verbs/command_context.h"
#include "launcher/verbs/command_line.h"

namespace ds {

// For every process but the first of all: serves until the job is over. Returns the exit code.
int stand_by(const StartedPlace& place, const RunOptions& options, const CommandContext& context);

// The launcher's side. What it has not been told to end with, ends with kClusterUnusable.
class StartedGroup {
 public:
  // Waits for all of them. `interrupt_fd` ends the waiting. Throws Error(kClusterUnusable),
  // Unsupported.
  StartedGroup(const StartedPlace& place, const RunOptions& options, const CommandContext& context,
               int interrupt_fd);

  // As chosen by the starter; for `dslaunch`, our own absolute path, see gather_job_hosts().
  JobHosts hosts(const RunOptions& options, const CommandContext& context) const;
  // Hands over the agents of other hosts.
  void give_agents(HostAgents& agents);
  // host -> cores that each of its slots was given; "" is this machine, where it is the only one.
  const std::map<std::string, std::vector<std::vector<int>>>& slot_cores() const {
    return slot_cores_;
  }
  const SlotGpus& slot_gpus() const { return slot_gpus_; }
  // The same for what makes each slot a process of an MPI job ("NAME=value").
  const SlotVariables& slot_variables() const { return slot_variables_; }
  // Returns the authority by which the other hosts joined; null on one host.
  const std::shared_ptr<const JobAuthority>& authority() const { return authority_; }
  std::string note() const;
  int size() const { return place_.size; }
  // Lets the dslaunch go that are on this host or not yet handed over.
  void end_with(int code);

 private:
  void keep(const std::string& host, const std::vector<SlotShare>& slots);

  const StartedPlace place_;
  StarterWatch watch_;
  HostLeader leader_;
  std::shared_ptr<const JobAuthority> authority_;
  std::vector<std::unique_ptr<HostLink>> links_;
  SlotMap slots_;  // of several hosts, ours first
  std::map<std::string, std::vector<std::vector<int>>> slot_cores_;
  SlotGpus slot_gpus_;
  SlotVariables slot_variables_;
};

}  // namespace ds
