// Command lines that start agents.
#include "launcher/decide/hosts/runner.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "cli/typing.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/decide/hosts/node_list.h"

namespace ds {

namespace {

constexpr std::array<std::string_view, 4> kNames = {"local", "ssh", "mpi", "slurm"};

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("._-/+").find(c) != std::string_view::npos;
}

void check_command(RunnerKind kind, const std::string& host, const RunnerOptions& options) {
  try {
    require_host_name(host);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("runner: host '{}': {}", host, error.what()));
  }
  if (kind != RunnerKind::kSsh && host.find('@') != std::string::npos) {
    throw UsageError(
        fmt::format("runner: '{}': only ssh knows users, {} does not", host, to_string(kind)));
  }
  if (kind != RunnerKind::kSsh && is_ipv6_address(host)) {
    throw UsageError(fmt::format("runner: '{}': {} knows hosts by name, ssh alone by IPv6 address",
                                 host, to_string(kind)));
  }
  if (!options.dslaunch.starts_with('/') ||
      !std::ranges::all_of(options.dslaunch, is_path_character)) {
    throw UsageError(
        fmt::format("runner: the path of dslaunch is '{}'; it has to be absolute, of "
                    "letters, digits and . _ - / +",
                    options.dslaunch));
  }
  if (options.ssh_port && (*options.ssh_port < 1 || *options.ssh_port > 65535)) {
    throw UsageError(fmt::format("runner: port {}, expected 1 to 65535", *options.ssh_port));
  }
  DS_CHECK(options.connect_timeout_s > 0, "runner: connect timeout of {} s",
           options.connect_timeout_s);
}

std::vector<std::string> prefix_of(RunnerKind kind, const std::string& host,
                                   const RunnerOptions& options) {
  std::vector<std::string> words;
  switch (kind) {
    case RunnerKind::kLocal:
      return {};
    case RunnerKind::kSsh: {
      // No prompt can be answered here, nothing needs forwarding, and a link that is silent for
      // longer than a lease is lost.
      words = {"-T",
               "-x",
               "-a",
               "-o",
               "BatchMode=yes",
               "-o",
               fmt::format("ConnectTimeout={}", options.connect_timeout_s),
               "-o",
               "ServerAliveInterval=5",
               "-o",
               "ServerAliveCountMax=2"};
      if (options.ssh_port) {
        words.insert(words.end(), {"-p", std::to_string(*options.ssh_port)});
      }
      // "--" keeps a host from being taken for an option, whatever it is called.
      words.insert(words.end(), {"--", host});
      return words;
    }
    case RunnerKind::kMpi:
      // Ranks bind themselves, so their agent must be free to run on every core.
      return {"--host", host, "-np", "1", "--bind-to", "none"};
    case RunnerKind::kSlurm:
      // NIL: the environment does not travel; what ranks shall have is listed and goes to the
      // agent.
      words = {fmt::format("--nodelist={}", host),
               "--nodes=1",
               "--ntasks=1",
               "--overlap",
               "--cpu-bind=none",
               "--mem=0",
               "--export=NIL",
               "--job-name=dslaunch-agent"};
      if (options.step_gpus) {
        words.push_back(*options.step_gpus == 0
                            ? "--gres=none"
                            : fmt::format("--gpus-per-node={}", *options.step_gpus));
      }
      return words;
  }
  throw InternalError("runner: unknown kind");
}

}  // namespace

std::string_view to_string(RunnerKind kind) { return nth(kNames, kind); }

RunnerChoice runner_named(std::string_view name) {
  const std::map<std::string_view, RunnerKind> deepspeed{{"pdsh", RunnerKind::kSsh},
                                                         {"openmpi", RunnerKind::kMpi},
                                                         {"mpich", RunnerKind::kMpi},
                                                         {"impi", RunnerKind::kMpi}};
  if (const auto found = std::ranges::find(kNames, name); found != kNames.end()) {
    return {static_cast<RunnerKind>(found - kNames.begin()), ""};
  }
  if (const auto found = deepspeed.find(name); found != deepspeed.end()) {
    return {found->second,
            fmt::format("--launcher {} is taken as --launcher {}", name, to_string(found->second))};
  }
  if (name == "mvapich") {
    throw Unsupported(
        "--launcher mvapich: MVAPICH's mpirun is not known here; use ssh, mpi or slurm");
  }
  throw UsageError("--launcher: " +
                   unknown_choice(std::string(name), {kNames.begin(), kNames.end()}));
}

std::vector<std::string> agent_command(RunnerKind kind, const std::string& host,
                                       const RunnerOptions& options) {
  check_command(kind, host, options);
  constexpr std::array<std::string_view, 4> kPrograms = {"", "ssh", "mpirun", "srun"};
  std::vector<std::string> argv;
  if (kind != RunnerKind::kLocal) {
    argv.emplace_back(nth(kPrograms, kind));
    argv.insert(argv.end(), options.extra.begin(), options.extra.end());
  }
  std::ranges::move(prefix_of(kind, host, options), std::back_inserter(argv));
  argv.insert(argv.end(), {options.dslaunch, "agent"});
  return argv;
}

std::vector<std::string> split_words(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool blank = quote == 0 && (c == ' ' || c == '\t' || c == '\n');
    if (blank) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    if (!word) word = "";
    if (quote != 0 && c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (quote != '\'' && c == '\\' && i + 1 < text.size()) {
      *word += text[++i];
    } else {
      *word += c;
    }
  }
  if (quote != 0) throw UsageError(fmt::format("'{}': the quote {} is not closed", text, quote));
  if (word) words.push_back(*word);
  return words;
}

}  // namespace ds
