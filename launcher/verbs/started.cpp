#include "launcher/verbs/started.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "core/status/error.h"
#include "core/tasks/host.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "launcher/agents/rendezvous_file.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/machine.h"
#include "launcher/process/rank_binding.h"
#include "launcher/process/signals.h"

namespace ds {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kLeaveLimit{5};

// srun and mpirun start all at once, but large jobs and cold file systems take their time.
seconds rendezvous_limit(const RunOptions& options) {
  return std::chrono::ceil<seconds>(options.waits.join);
}

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
  // If ranks generate, the run directory is the launcher's alone.
  const bool is_shared = options.run_dir && !options.generation;
  const fs::path beside = is_shared ? fs::absolute(*options.run_dir).parent_path() : fs::path();
  std::error_code error;
  const fs::path folder =
      !beside.empty() && fs::is_directory(beside, error) ? beside : fs::current_path();
  return folder / rendezvous_file_name(job_of(place));
}

std::string slots_name(const StartedPlace& place) {
  return slot_socket_name(job_of(place), fmt::format("{} {}", place.host, place.group), geteuid());
}

SlotShare own_share(const StartedPlace& place, const CommandContext& context) {
  SlotShare share{.local_rank = place.local_rank, .cores = own_cores()};
  if (context.visible_gpus != nullptr) share.gpus = own_gpus(context.visible_gpus).names;
  share.variables = mpi_variables(as_environment(context.environment));
  return share;
}

std::vector<std::vector<int>> cores_of_slots(const std::vector<SlotShare>& slots) {
  std::vector<std::vector<int>> cores;
  for (const SlotShare& slot : slots) cores.push_back(slot.cores);
  return cores;
}

// Nothing unless each was given some.
std::vector<std::vector<std::string>> gpus_of_slots(const std::vector<SlotShare>& slots) {
  std::vector<std::vector<std::string>> gpus;
  for (const SlotShare& slot : slots) {
    if (slot.gpus.empty()) return {};
    gpus.push_back(slot.gpus);
  }
  return gpus;
}

std::vector<std::vector<std::string>> variables_of_slots(const std::vector<SlotShare>& slots) {
  std::vector<std::vector<std::string>> variables;
  for (const SlotShare& slot : slots) variables.push_back(slot.variables);
  return variables;
}

// As an agent of another host says it; local ranks are places in the list.
std::vector<SlotShare> slots_of(const agent::Ready& ready) {
  std::vector<SlotShare> out;
  for (const agent::StartedSlot& slot : ready.slots()) {
    out.push_back({.local_rank = narrow<int>(out.size()),
                   .cores = {slot.cores().begin(), slot.cores().end()},
                   .gpus = {slot.gpus().begin(), slot.gpus().end()},
                   .variables = {slot.environment().begin(), slot.environment().end()}});
  }
  return out;
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
    return wait_for_first(name, own_share(place, context), rendezvous_limit(options));
  }
  forbid_core_dumps();
  hide_from_same_user();  // ranks' secrets pass through
  HostLeader peers(name);
  try {
    std::vector<SlotShare> slots =
        peers.gather(place.local_size - 1, rendezvous_limit(options), -1);
    slots.insert(slots.begin(), own_share(place, context));
    const AgentContext agent{context.environment, "", own_gpus(context.visible_gpus), false};
    const int code =
        join_rendezvous(rendezvous_path(place, options), agent,
                        {.start_rank = place.rank, .host = place.host, .slots = std::move(slots)},
                        rendezvous_limit(options));
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
  std::vector<SlotShare> here =
      leader_.gather(place.local_size - 1, rendezvous_limit(options), interrupt_fd);
  here.insert(here.begin(), own_share(place, context));
  if (place.local_size == place.size) {
    keep("", here);
    return;
  }
  authority_ = make_job_authority(options.timeout);
  RendezvousOptions rendezvous;
  rendezvous.authority = authority_;
  rendezvous.file = rendezvous_path(place, options);
  rendezvous.addresses = rendezvous_addresses(options.hosts);
  rendezvous.processes = place.size - place.local_size;
  rendezvous.limit = rendezvous_limit(options);
  rendezvous.interrupt_fd = interrupt_fd;
  links_ = meet_hosts(rendezvous);
  std::string own = place.host.empty() ? own_host_name() : place.host;
  const auto taken = [&](const auto& link) { return link->host() == own; };
  if (std::ranges::any_of(links_, taken)) own += ".0";
  slots_.push_back(numbered_slots(own, here.size()));
  keep(own, here);
  for (const auto& link : links_) {
    const std::vector<SlotShare> there = slots_of(*link->ready());
    slots_.push_back(numbered_slots(link->host(), there.size()));
    keep(link->host(), there);
  }
}

void StartedGroup::keep(const std::string& host, const std::vector<SlotShare>& slots) {
  slot_cores_[host] = cores_of_slots(slots);
  slot_gpus_[host] = gpus_of_slots(slots);
  slot_variables_[host] = variables_of_slots(slots);
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
