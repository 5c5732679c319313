// Command lines that start ranks on hosts.
#include "launcher/runner.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "launcher/node_list.h"

namespace ds {

namespace {

constexpr std::string_view kFromStdin = "--from-stdin";

constexpr std::array<std::string_view, 4> kNames = {"local", "ssh", "mpi", "slurm"};

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/+").find(c) != std::string_view::npos;
}

void check(const SlotMap& hosts, const RunnerOptions& options) {
  if (hosts.empty()) throw UsageError("runner: no hosts are left after filtering");
  for (const HostSlots& host : hosts) {
    try {
      require_host_name(host.name);
    } catch (const UsageError& error) {
      throw UsageError(fmt::format("runner: host '{}': {}", host.name, error.what()));
    }
    if (host.slots.empty())
      throw UsageError(fmt::format("runner: host {} has no slots", host.name));
  }
  if (options.rankd.empty() || options.rankd[0] == '-' ||
      !std::ranges::all_of(options.rankd, is_path_character)) {
    throw UsageError(fmt::format(
        "runner: the path of rankd is '{}'; only letters, digits and . _ - / + may be in it",
        options.rankd));
  }
  if (options.ssh_port < 1 || options.ssh_port > 65535 || options.connect_timeout_s < 1) {
    throw UsageError(fmt::format("runner: port {} or connect timeout {} s cannot be",
                                 options.ssh_port, options.connect_timeout_s));
  }
}

int64_t count_ranks(const SlotMap& hosts) {
  int64_t ranks = 0;
  for (const HostSlots& host : hosts) ranks += static_cast<int64_t>(host.slots.size());
  return ranks;
}

std::vector<RunnerCommand> per_rank(const SlotMap& hosts, const std::vector<std::string>& prefix,
                                    const RunnerOptions& options) {
  std::vector<RunnerCommand> commands;
  for (const HostSlots& host : hosts) {
    for (size_t slot = 0; slot < host.slots.size(); ++slot) {
      RunnerCommand& command = commands.emplace_back();
      command.host = host.name;
      command.ranks = 1;
      command.first_rank = static_cast<int64_t>(commands.size()) - 1;
      command.argv = prefix;
      if (!prefix.empty()) {
        // "--" keeps a host from being taken for an option, whatever it is called.
        command.argv.insert(command.argv.end(), {"--", host.name});
      }
      command.argv.insert(command.argv.end(), {options.rankd, std::string(kFromStdin)});
    }
  }
  return commands;
}

RunnerCommand mpirun(const SlotMap& hosts, const RunnerOptions& options) {
  std::vector<std::string> places;
  for (const HostSlots& host : hosts)
    places.push_back(fmt::format("{}:{}", host.name, host.slots.size()));
  const int64_t ranks = count_ranks(hosts);
  return {.host = "",
          .ranks = ranks,
          .first_rank = 0,
          // By slot, so that ranks are numbered through the hosts in order; standard input goes to
          // rank 0.
          .argv = {"mpirun", "-np", std::to_string(ranks), "--host",
                   fmt::format("{}", fmt::join(places, ",")), "--map-by", "slot", "--bind-to",
                   "none", "--stdin", "0", options.rankd, std::string(kFromStdin)}};
}

RunnerCommand srun(const SlotMap& hosts, const RunnerOptions& options) {
  std::vector<std::string> names;
  for (const HostSlots& host : hosts) {
    names.push_back(host.name);
    if (host.slots.size() != hosts.front().slots.size()) {
      throw UsageError(fmt::format(
          "runner: srun needs the same number of ranks on every host, but {} has {} and {} {}",
          hosts.front().name, hosts.front().slots.size(), host.name, host.slots.size()));
    }
  }
  const int64_t ranks = count_ranks(hosts);
  return {
      .host = "",
      .ranks = ranks,
      .first_rank = 0,
      .argv = {"srun", fmt::format("--nodes={}", hosts.size()), fmt::format("--ntasks={}", ranks),
               fmt::format("--ntasks-per-node={}", hosts.front().slots.size()),
               fmt::format("--nodelist={}", fmt::join(names, ",")), "--distribution=block",
               "--kill-on-bad-exit=1", "--input=all", "--export=NONE", options.rankd,
               std::string(kFromStdin)}};
}

}  // namespace

std::string_view to_string(RunnerKind kind) { return kNames[static_cast<size_t>(kind)]; }

RunnerKind runner_named(std::string_view name) {
  const auto found = std::ranges::find(kNames, name);
  if (found == kNames.end()) {
    throw UsageError(
        fmt::format("runner '{}' is unknown, expected {}", name, fmt::join(kNames, ", ")));
  }
  return static_cast<RunnerKind>(found - kNames.begin());
}

std::vector<RunnerCommand> runner_commands(RunnerKind kind, const SlotMap& hosts,
                                           const RunnerOptions& options) {
  check(hosts, options);
  switch (kind) {
    case RunnerKind::kLocal:
      if (hosts.size() > 1) {
        throw UsageError(fmt::format("runner: local cannot reach {} hosts; use ssh, mpi or slurm",
                                     hosts.size()));
      }
      return per_rank(hosts, {}, options);
    case RunnerKind::kSsh:
      return per_rank(hosts,
                      {"ssh", "-o", "BatchMode=yes", "-o",
                       fmt::format("ConnectTimeout={}", options.connect_timeout_s), "-p",
                       std::to_string(options.ssh_port)},
                      options);
    case RunnerKind::kMpi:
      return {mpirun(hosts, options)};
    case RunnerKind::kSlurm:
      return {srun(hosts, options)};
  }
  throw InternalError("runner: unknown kind");
}

}  // namespace ds
