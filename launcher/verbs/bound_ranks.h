// The cores of a run's ranks, from what this machine and the hosts' agents say of theirs.
#pragma once

#include <vector>

#include "launcher/agents/host_agents.h"
#include "launcher/decide/node_pool.h"
#include "launcher/process/machine.h"
#include "launcher/process/rank_binding.h"
#include "launcher/report/console.h"
#include "launcher/verbs/command_line.h"

namespace ds {

class StartedGroup;

// `group` is null unless mpirun or srun started many dslaunch. Throw UsageError where cores are too
// few, Unsupported where they cannot be found out.
RankBinding bind_here(const RunOptions& options, const WorldShape& shape,
                      const StartedGroup* group);
RankBinding bind_on_hosts(const RunOptions& options, const std::vector<PoolNode>& nodes,
                          const std::vector<ReachedHost>& reached, const StartedGroup* group);

void print_bindings(const RankBinding& binding, Console& console);

}  // namespace ds
