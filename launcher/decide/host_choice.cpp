#include "launcher/decide/host_choice.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/index.h"
#include "launcher/decide/node_list.h"

namespace ds {
namespace {

std::string variable(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string short_name(std::string_view host) {
  return std::string(host.substr(0, host.find('.')));
}

bool is_this_machine(const std::string& host, const std::string& this_host) {
  constexpr std::array<std::string_view, 4> kLocal{"localhost", "127.0.0.1", "::1",
                                                   "ip6-localhost"};
  return std::ranges::find(kLocal, host) != kLocal.end() || host == this_host ||
         (host.find('.') == std::string::npos && host == short_name(this_host));
}

HostPool slurm_pool(const Environment& environment) {
  const std::vector<std::string> nodes =
      expand_node_list(variable(environment, "SLURM_JOB_NODELIST"));
  std::string tasks = variable(environment, "SLURM_TASKS_PER_NODE");
  std::vector<int64_t> counts = expand_task_counts(tasks.empty() ? "1" : tasks);
  counts.resize(nodes.size(), counts.back());
  HostPool pool;
  for (size_t i = 0; i < nodes.size(); ++i) {
    pool.push_back({nodes[i], counts[i]});
  }
  return pool;
}

void keep_first_slots(SlotMap& hosts, int count, RunnerKind kind, bool slots_are_said) {
  for (HostSlots& host : hosts) {
    const auto there = narrow<int64_t>(host.slots.size());
    if (count > there && slots_are_said) {
      throw UsageError(
          fmt::format("--num-gpus {}: host {} has {} slots{}", count, host.name, there,
                      kind == RunnerKind::kLocal ? "" : " after --include or --exclude"));
    }
    for (int64_t slot = there; slot < count; ++slot) host.slots.push_back(slot);
    host.slots.resize(to_size(count));
  }
}

void require_no_host_options(const HostRequest& request) {
  if (!request.include.empty() || !request.exclude.empty() || request.num_nodes.value_or(1) > 1) {
    throw UsageError("--include, --exclude and --num-nodes choose among hosts; give --hostfile");
  }
}

RunnerKind automatic(const SlotMap& hosts, const HostRequest& request, bool from_hostfile) {
  if (hosts.size() == 1 && is_this_machine(hosts.front().name, request.this_host)) {
    return RunnerKind::kLocal;
  }
  return from_hostfile ? RunnerKind::kSsh : RunnerKind::kSlurm;
}

}  // namespace

std::vector<int64_t> expand_task_counts(std::string_view text) {
  std::vector<int64_t> counts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    int64_t times = 1;
    if (const size_t open = part.find("(x");
        open != std::string_view::npos && part.ends_with(')')) {
      times = parse_whole_number(part.substr(open + 2, part.size() - open - 3), "tasks per node");
      part = part.substr(0, open);
    }
    const int64_t tasks = parse_whole_number(part, "tasks per node");
    if (tasks < 1 || tasks > kMaxSlots || times < 1 || counts.size() + to_size(times) > kMaxNodes) {
      throw UsageError(fmt::format("tasks per node: {} times {} cannot be", times, tasks));
    }
    counts.insert(counts.end(), to_size(times), tasks);
  }
  if (counts.empty()) throw UsageError("tasks per node: the list is empty");
  return counts;
}

HostChoice choose_hosts(const HostRequest& request) {
  HostChoice choice;
  const bool automatically = request.launcher == "auto";
  if (!automatically) {
    RunnerChoice named = runner_named(request.launcher);
    choice.kind = named.kind;
    if (!named.note.empty()) choice.notes.push_back(std::move(named.note));
  }
  const bool from_hostfile = request.hostfile_text.has_value();
  const bool in_slurm = !variable(request.environment, "SLURM_JOB_NODELIST").empty();
  const bool takes_slurm =
      !from_hostfile && in_slurm &&
      (automatically || choice.kind == RunnerKind::kSlurm || choice.kind == RunnerKind::kMpi);
  if (!from_hostfile && !takes_slurm) {
    if (!automatically && choice.kind != RunnerKind::kLocal) {
      throw UsageError(fmt::format("--launcher {}: no hosts; give --hostfile{}", request.launcher,
                                   choice.kind == RunnerKind::kSlurm
                                       ? ", or run it inside an allocation (salloc, sbatch)"
                                       : ""));
    }
    require_no_host_options(request);
    return choice;
  }
  const HostPool pool =
      from_hostfile
          ? parse_hostfile(*request.hostfile_text, request.hostfile_name, HostDialect::kDslaunch)
          : slurm_pool(request.environment);
  choice.hosts = select_slots(pool, request.include, request.exclude, HostDialect::kDslaunch);
  if (choice.hosts.empty()) throw UsageError("--exclude: no host is left");
  if (request.num_nodes) {
    const auto wanted = to_size(*request.num_nodes);
    if (wanted > choice.hosts.size()) {
      throw UsageError(fmt::format("--num-nodes {}: there are {}", wanted, choice.hosts.size()));
    }
    choice.hosts.resize(wanted);
  }
  if (automatically) choice.kind = automatic(choice.hosts, request, from_hostfile);
  if (choice.kind == RunnerKind::kLocal) {
    const bool ours =
        choice.hosts.size() == 1 && is_this_machine(choice.hosts.front().name, request.this_host);
    if (!ours) {
      throw UsageError(
          fmt::format("--launcher local: the hosts are not this machine ({}) alone; use "
                      "ssh, mpi or slurm, or --include",
                      request.this_host));
    }
  }
  // Tasks of an allocation are a default; slots of a hostfile are what is there.
  if (request.num_gpus) {
    keep_first_slots(choice.hosts, *request.num_gpus, choice.kind, from_hostfile);
  }
  return choice;
}

}  // namespace ds
