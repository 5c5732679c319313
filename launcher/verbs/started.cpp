#include "launcher/verbs/started.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/error.h"
#include "core/host.h"
#include "core/secrecy.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/machine.h"
#include "launcher/process/rank_binding.h"
#include "launcher/process/signals.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

// srun and mpirun start all at once, but large jobs and cold file systems take their time.
constexpr seconds kRendezvousLimit{60};
constexpr seconds kLeaveLimit{5};

// One host needs no name of the job: its dslaunch have one parent.
std::string job_of(const StartedPlace& place) {
  if (!place.job.empty()) return place.job;
  if (place.local_size == place.size) return fmt::format("parent {}", getppid());
  throw Unsupported(
      fmt::format("{} started {} dslaunch on several hosts, but no variable names the job "
                  "(PMIX_NAMESPACE, PMI_JOBID, PBS_JOBID, LSB_JOBID, SLURM_JOB_ID); start "
                  "one: dslaunch --hostfile HOSTS --launcher mpi train.json",
                  place.starter, place.size));
}

// All of them come to the same answer: beside the run directory, or where they were started.
fs::path rendezvous_path(const StartedPlace& place, const RunOptions& options) {
  const fs::path beside =
      options.run_dir ? fs::absolute(*options.run_dir).parent_path() : fs::path();
  std::error_code error;
  const fs::path folder =
      !beside.empty() && fs::is_directory(beside, error) ? beside : fs::current_path();
  return folder / rendezvous_file_name(job_of(place));
}

std::string slots_name(const StartedPlace& place) {
  return slot_socket_name(job_of(place), place.host, geteuid());
}

std::vector<std::vector<int>> cores_of_slots(const std::vector<SlotShare>& peers) {
  std::vector<std::vector<int>> cores{own_cores()};
  for (const SlotShare& peer : peers) cores.push_back(peer.cores);
  return cores;
}

// What our own slot was given; nothing where nobody set the variable.
std::vector<std::string> given_gpus(const CommandContext& context) {
  return context.visible_gpus == nullptr ? std::vector<std::string>{}
                                         : own_gpus(context.visible_gpus).names;
}

// Nothing where no slot was given any.
std::vector<std::vector<std::string>> gpus_of_slots(const CommandContext& context,
                                                    const std::vector<SlotShare>& peers) {
  std::vector<std::vector<std::string>> gpus{given_gpus(context)};
  for (const SlotShare& peer : peers) gpus.push_back(peer.gpus);
  const bool any = std::ranges::any_of(gpus, [](const auto& own) { return !own.empty(); });
  return any ? gpus : std::vector<std::vector<std::string>>{};
}

HostSlots numbered_slots(const std::string& host, size_t count) {
  HostSlots out{.name = host, .slots = {}};
  out.slots.resize(count);
  std::iota(out.slots.begin(), out.slots.end(), 0);
  return out;
}

}  // namespace

int stand_by(const StartedPlace& place, const RunOptions& options, const CommandContext& context) {
  const std::string name = slots_name(place);
  if (!place.leads_host()) {
    const SignalWatch deaf;  // the starter sends them to the launcher too, who decides
    return wait_for_first(name, {place.local_rank, own_cores(), given_gpus(context)},
                          kRendezvousLimit);
  }
  forbid_core_dumps();
  hide_from_same_user();  // ranks' secrets pass through
  HostLeader peers(name);
  try {
    const std::vector<SlotShare> shares = peers.gather(place.local_size - 1, kRendezvousLimit, -1);
    const AgentContext agent{context.environment, "", own_gpus(context.visible_gpus), false};
    const int code = join_rendezvous(rendezvous_path(place, options), agent,
                                     {.start_rank = place.rank,
                                      .host = place.host,
                                      .slot_cores = cores_of_slots(shares),
                                      .slot_gpus = gpus_of_slots(context, shares)},
                                     kRendezvousLimit);
    peers.release(code);
    return code;
  } catch (const Error& error) {
    peers.release(static_cast<int>(error.exit_code()));
    throw;
  }
}

StartedGroup::StartedGroup(const StartedPlace& place, const RunOptions& options,
                           const CommandContext& context, int interrupt_fd)
    : place_(place), leader_(slots_name(place)) {
  const std::vector<SlotShare> peers =
      leader_.gather(place.local_size - 1, kRendezvousLimit, interrupt_fd);
  const std::vector<std::vector<int>> here = cores_of_slots(peers);
  if (place.local_size == place.size) {
    slot_cores_[""] = here;
    slot_gpus_[""] = gpus_of_slots(context, peers);
    return;
  }
  authority_ = make_job_authority(options.timeout);
  RendezvousOptions rendezvous;
  rendezvous.authority = authority_;
  rendezvous.file = rendezvous_path(place, options);
  rendezvous.addresses = rendezvous_addresses(options.hosts);
  rendezvous.processes = place.size - place.local_size;
  rendezvous.limit = kRendezvousLimit;
  rendezvous.interrupt_fd = interrupt_fd;
  links_ = meet_hosts(rendezvous);
  std::string own = place.host.empty() ? own_host_name() : place.host;
  const auto taken = [&](const auto& link) { return link->host() == own; };
  if (std::ranges::any_of(links_, taken)) own += ".0";
  slots_.push_back(numbered_slots(own, here.size()));
  slot_cores_[own] = here;
  slot_gpus_[own] = gpus_of_slots(context, peers);
  for (const auto& link : links_) {
    std::vector<std::vector<int>> there;
    std::vector<std::vector<std::string>> gpus;
    for (const agent::SlotCores& slot : link->ready()->slots()) {
      there.emplace_back(slot.cores().begin(), slot.cores().end());
      if (slot.gpus_size() > 0) gpus.emplace_back(slot.gpus().begin(), slot.gpus().end());
    }
    if (gpus.size() == there.size()) slot_gpus_[link->host()] = std::move(gpus);
    slots_.push_back(numbered_slots(link->host(), there.size()));
    slot_cores_[link->host()] = std::move(there);
  }
}

JobHosts StartedGroup::hosts(const RunOptions& options, const CommandContext& context) const {
  return gather_started_hosts(options.hosts, context.environment, context.own_program,
                              place_.starter, slots_);
}

void StartedGroup::give_agents(HostAgents& agents) {
  for (std::unique_ptr<HostLink>& link : links_) agents.adopt(std::move(link));
  links_.clear();
}

std::string StartedGroup::note() const {
  const auto hosts = static_cast<int64_t>(std::max<size_t>(1, slots_.size()));
  const bool bound = std::ranges::any_of(
      slot_cores_, [](const auto& entry) { return !slot_bindings(entry.second).empty(); });
  return fmt::format("{} started {} dslaunch on {}, one for each rank{}", place_.starter,
                     place_.size, hosts == 1 ? "this host" : fmt::format("{} hosts", hosts),
                     bound ? "; ranks keep the cores that it gave to each" : "");
}

void StartedGroup::end_with(int code) {
  const auto deadline = HostLink::Clock::now() + kLeaveLimit;
  while (!links_.empty() && HostLink::Clock::now() < deadline) {
    std::erase_if(links_,
                  [&](const auto& link) { return link->leave(HostLink::Clock::now(), code); });
    if (!links_.empty()) usleep(10'000);
  }
  leader_.release(code);
}

}  // namespace ds
