// Command lines that start one agent on one host (pure), as data: through ssh, mpirun, srun, or
// directly on this machine. Every host has its own command, so that one that is lost, or joins
// later, concerns nobody else. Secrets and settings never stand in them: an agent is told
// everything on standard input, so the remote command is a constant string.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

enum class RunnerKind { kLocal, kSsh, kMpi, kSlurm };
std::string_view to_string(RunnerKind kind);

struct RunnerChoice {
  RunnerKind kind = RunnerKind::kLocal;
  std::string note;  // what the user should know about the choice, may be empty
};
// local, ssh, mpi, slurm, and DeepSpeed's pdsh, openmpi, mpich, impi. Throws UsageError, and
// Unsupported for DeepSpeed's mvapich.
RunnerChoice runner_named(std::string_view name);

struct RunnerOptions {
  std::string dslaunch;         // absolute path, the same on every host
  std::optional<int> ssh_port;  // none: what ssh's own configuration says
  int connect_timeout_s = 10;
  std::vector<std::string> extra;  // --launcher-args, before everything of ours
  // What srun asks for on each node; 0: for no GPU; none: for nothing of its own.
  std::optional<int64_t> step_gpus{};
};

// argv of the command for one host. Throws UsageError for a host that require_host_name refuses, a
// user@ where ssh is not used, a port that cannot be, and a path with other characters than A-Z a-z
// 0-9 . _ - / +, because ssh hands it to a shell.
std::vector<std::string> agent_command(RunnerKind kind, const std::string& host,
                                       const RunnerOptions& options);

// "--a 'b c' d\ e" as a shell would cut it into words; nothing is expanded. Throws UsageError for
// an open quote.
std::vector<std::string> split_words(std::string_view text);

}  // namespace ds
