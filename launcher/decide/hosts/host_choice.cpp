#include "launcher/decide/hosts/host_choice.h"

#include <algorithm>
#include <array>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/hosts/slurm_allocation.h"
#include "launcher/decide/text/amounts.h"

namespace ds {
namespace {

std::string short_name(std::string_view host) {
  return std::string(host.substr(0, host.find('.')));
}

bool is_loopback(const std::string& host) {
  constexpr std::array<std::string_view, 4> kNames{"localhost", "127.0.0.1", "::1",
                                                   "ip6-localhost"};
  return std::ranges::find(kNames, host) != kNames.end();
}

bool is_this_machine(const std::string& host, const std::string& this_host) {
  return is_loopback(host) || host == this_host ||
         (host.find('.') == std::string::npos && host == short_name(this_host));
}

bool names_hosts(const HostRequest& request) {
  return !request.include.empty() || !request.exclude.empty();
}

// What the filter names, whichever it is.
SlotMap named_by_filter(const HostRequest& request) {
  if (!names_hosts(request)) return {};
  return parse_node_filter(request.include.empty() ? request.exclude : request.include);
}

// Tasks of an allocation and lines of a hostfile are a default, which --num-gpus may raise; a
// number of slots is a limit, and so are slots that a filter names.
void keep_first_slots(SlotMap& hosts, const HostRequest& request, const HostPool& pool) {
  if (!request.num_gpus) return;
  const auto count = narrow<int64_t>(*request.num_gpus);
  const SlotMap named = named_by_filter(request);
  for (HostSlots& host : hosts) {
    const auto there = narrow<int64_t>(host.slots.size());
    const auto filtered = std::ranges::find(named, host.name, &HostSlots::name);
    const bool by_filter = filtered != named.end() && !filtered->slots.empty();
    const bool limited = by_filter || std::ranges::find(pool, host.name, &Host::name)->slots_said;
    if (count > there && limited) {
      throw UsageError(fmt::format("--num-gpus {}: host {} has {}{}", count, host.name,
                                   format_count(there, "slot"),
                                   by_filter ? " after --include or --exclude" : ""));
    }
    for (int64_t slot = there; slot < count; ++slot) host.slots.push_back(slot);
    host.slots.resize(to_size(count));
  }
}

HostPool hostfile_pool(const HostRequest& request, std::vector<std::string>& notes) {
  HostPool pool =
      parse_hostfile(*request.hostfile_text, request.hostfile_name, HostDialect::kDslaunch);
  const auto counted =
      std::ranges::count_if(pool, [](const Host& host) { return !host.slots_said; });
  if (counted > 0 && !request.num_gpus) {
    int64_t lines = 0;
    for (const Host& host : pool) lines += host.slots_said ? 0 : host.slots;
    notes.push_back(fmt::format(
        "{}: a line without a number of slots is one slot: {} on {}; write 'HOST slots=NUMBER', or "
        "--num-gpus, for another number",
        request.hostfile_name, format_count(lines, "slot"), format_count(counted, "host")));
  }
  return pool;
}

HostPool slurm_pool(const SlurmAllocation& slurm, const HostRequest& request,
                    std::vector<std::string>& notes) {
  SlurmRanks ranks = slurm_ranks(slurm, request.on_gpus);
  if (!ranks.note.empty() && !request.num_gpus) notes.push_back(std::move(ranks.note));
  return std::move(ranks.hosts);
}

// Who writes "localhost" means this machine, whatever else an allocation has.
bool filters_localhost(const HostRequest& request) {
  if (!names_hosts(request)) return false;
  const SlotMap named = named_by_filter(request);
  return std::ranges::all_of(named, [](const HostSlots& host) { return is_loopback(host.name); });
}

// Without hosts, DeepSpeed's filters choose among the slots of "localhost".
void choose_here(HostChoice& choice, const HostRequest& request) {
  if (request.num_nodes.value_or(1) > 1) {
    throw UsageError(fmt::format("--num-nodes {}: there is this machine alone; give --hostfile",
                                 *request.num_nodes));
  }
  if (!names_hosts(request)) return;
  const bool including = !request.include.empty();
  const SlotMap named = named_by_filter(request);
  for (const HostSlots& host : named) {
    if (is_this_machine(host.name, request.this_host)) continue;
    throw UsageError(
        fmt::format("{}: '{}' is not this machine ({}), and there is no list of others; give "
                    "--hostfile, or write localhost",
                    including ? "--include" : "--exclude", host.name, request.this_host));
  }
  if (named.size() > 1) {
    throw UsageError(fmt::format("--include, --exclude: {} and {} are both this machine",
                                 named[0].name, named[1].name));
  }
  const std::vector<int64_t>& slots = named.front().slots;
  if (including && request.exclude.empty() && slots.empty()) return;  // all of them, as without
  // The CPU has room for any number of ranks; which GPUs there are is asked where ranks are placed.
  const int64_t most = slots.empty() || !including ? 0 : std::min(slots.back(), kMaxSlots - 1) + 1;
  const HostPool here{{named.front().name, std::max<int64_t>(request.local_slots, most), false}};
  const std::string visible = value_in(request.environment, "CUDA_VISIBLE_DEVICES");
  if (request.on_gpus && !visible.empty()) {
    choice.notes.push_back(fmt::format(
        "slots of {} are places in CUDA_VISIBLE_DEVICES={}, from 0; unset it, and they are numbers "
        "of GPUs",
        named.front().name, visible));
  }
  choice.hosts = select_slots(here, request.include, request.exclude, HostDialect::kDslaunch);
  if (choice.hosts.empty()) throw UsageError("--exclude: no slot of this machine is left");
  keep_first_slots(choice.hosts, request, here);
}

RunnerKind automatic(const SlotMap& hosts, const HostRequest& request, bool from_hostfile) {
  if (hosts.size() == 1 && is_this_machine(hosts.front().name, request.this_host)) {
    return RunnerKind::kLocal;
  }
  return from_hostfile ? RunnerKind::kSsh : RunnerKind::kSlurm;
}

}  // namespace

HostChoice choose_hosts(const HostRequest& request) {
  HostChoice choice;
  const bool automatically = request.launcher == "auto";
  if (!automatically) {
    RunnerChoice named = runner_named(request.launcher);
    choice.kind = named.kind;
    if (!named.note.empty()) choice.notes.push_back(std::move(named.note));
  }
  const bool from_hostfile = request.hostfile_text.has_value();
  const bool asks_slurm = !from_hostfile && (automatically ? !filters_localhost(request)
                                                           : choice.kind == RunnerKind::kSlurm ||
                                                                 choice.kind == RunnerKind::kMpi);
  const SlurmAllocation slurm =
      asks_slurm ? slurm_allocation(request.environment) : SlurmAllocation{};
  if (!from_hostfile && slurm.nodes.empty()) {
    if (!automatically && choice.kind != RunnerKind::kLocal) {
      throw UsageError(fmt::format("--launcher {}: no hosts; give --hostfile{}", request.launcher,
                                   choice.kind == RunnerKind::kSlurm
                                       ? ", or run it inside an allocation (salloc, sbatch)"
                                       : ""));
    }
    choose_here(choice, request);
    return choice;
  }
  const HostPool pool = from_hostfile ? hostfile_pool(request, choice.notes)
                                      : slurm_pool(slurm, request, choice.notes);
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
  keep_first_slots(choice.hosts, request, pool);
  return choice;
}

}  // namespace ds
