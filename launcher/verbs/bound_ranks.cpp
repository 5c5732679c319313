#include "launcher/verbs/bound_ranks.h"

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/process/machine.h"
#include "launcher/process/machine_cores.h"
#include "launcher/verbs/started.h"

namespace ds {
namespace {

// The cores that each slot of a host may use: its own, if mpirun or srun gave it some, or its
// agent's.
std::vector<std::vector<int>> slot_cores_of(const StartedGroup* group, const std::string& host,
                                            size_t slots, const std::vector<int>& all) {
  if (group && group->slot_cores().contains(host)) return group->slot_cores().at(host);
  return std::vector<std::vector<int>>(slots, all);
}

}  // namespace

RankBinding bind_here(const RunOptions& options, const WorldShape& shape,
                      const StartedGroup* group) {
  HostCpus here;
  if (options.binding.wants_topology()) here.topology = machine_cores();
  here.slots = slot_cores_of(group, "", to_size(shape.ranks), own_cores());
  return bind_ranks(options.binding, {here});
}

RankBinding bind_on_hosts(const RunOptions& options, const std::vector<PoolNode>& nodes,
                          const std::vector<ReachedHost>& reached, const StartedGroup* group) {
  std::vector<HostCpus> hosts;
  for (const ReachedHost& host : reached) {
    const auto node = std::ranges::find(nodes, host.link->host(), &PoolNode::host);
    const agent::Ready& ready = *host.link->ready();
    HostCpus out{host.link->host(), {}, {}};
    for (const agent::TopologyCore& core : ready.topology()) {
      out.topology.push_back(
          {{core.cpus().begin(), core.cpus().end()}, core.numa(), core.package()});
    }
    if (out.topology.empty() && options.binding.wants_topology()) {
      throw Unsupported(
          fmt::format("host {}: hwloc cannot read it there, so its cores are not known", out.host));
    }
    out.slots = slot_cores_of(group, out.host, node == nodes.end() ? 0 : node->slots.size(),
                              {ready.allowed_cpus().begin(), ready.allowed_cpus().end()});
    hosts.push_back(std::move(out));
  }
  return bind_ranks(options.binding, hosts);
}

void print_bindings(const RankBinding& binding, Console& console) {
  for (const std::string& line : binding.report) console.line("binding: " + line);
}

}  // namespace ds
