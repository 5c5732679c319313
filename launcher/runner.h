// Command lines that start ranks on hosts (pure), as data: one ssh session per host, or one mpirun
// or srun for all. Secrets and settings never stand in them: every rankd reads its bootstrap from
// standard input, so the remote command is a constant string.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/host_filter.h"

namespace ds {

enum class RunnerKind { kLocal, kSsh, kMpi, kSlurm };
std::string_view to_string(RunnerKind kind);
RunnerKind runner_named(std::string_view name);  // local, ssh, mpi, slurm; throws UsageError

// One process to start here. `host` is empty when the command serves all hosts.
struct RunnerCommand {
  std::string host;
  int64_t ranks = 0;       // started by this command
  int64_t first_rank = 0;  // ranks are numbered through the hosts in order
  std::vector<std::string> argv;
};

struct RunnerOptions {
  std::string rankd = "rankd";  // path on the hosts; absolute, or found there on the PATH
  int ssh_port = 22;
  int connect_timeout_s = 10;
};

// kLocal and kSsh: one command per rank, on the host of its slot. kMpi and kSlurm: one command for
// all. Throws UsageError for no hosts, a host that require_host_name refuses, or a rankd path with
// other characters than A-Z a-z 0-9 . _ - / +, because ssh hands it to a shell; kLocal refuses more
// than one host; kSlurm refuses hosts with different numbers of slots, which one srun cannot
// express.
std::vector<RunnerCommand> runner_commands(RunnerKind kind, const SlotMap& hosts,
                                           const RunnerOptions& options);

}  // namespace ds
