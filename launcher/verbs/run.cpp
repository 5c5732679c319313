#include "launcher/verbs/run.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <numeric>

#include "core/error.h"
#include "launcher/local_world.h"
#include "launcher/supervisor.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// Libraries that bring their own threads must not take more than the rank's share.
std::vector<std::string> rank_environment(const std::vector<std::string>& ours, int threads) {
  constexpr std::string_view kOpenMp = "OMP_NUM_THREADS=";
  std::vector<std::string> out;
  std::ranges::copy_if(ours, std::back_inserter(out),
                       [&](const std::string& entry) { return !entry.starts_with(kOpenMp); });
  out.push_back(fmt::format("{}{}", kOpenMp, threads));
  return out;
}

// A missing program should be said before a run directory is made for it.
void require_program(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0) {
    throw InputMissing(fmt::format("{} is missing; it belongs beside dslaunch", path));
  }
}

// Batch sizes that fit one world only choose it, as long as this machine has room for it.
WorldShape shape_of(const RunOptions& options, const JobConfig& config, const Machine& machine) {
  std::optional<int> ranks = options.num_ranks;
  const int room = machine.gpus > 0 ? machine.gpus : machine.cores;
  const std::optional<int64_t> implied = implied_ranks(config.batch);
  if (!ranks && implied && *implied <= room) {
    ranks = static_cast<int>(*implied);
  }
  return choose_shape(machine, ranks, options.num_threads);
}

PoolNode this_machine_as_node(int ranks) {
  PoolNode node;
  node.slots.resize(static_cast<size_t>(ranks));
  std::iota(node.slots.begin(), node.slots.end(), 0);
  return node;
}

// --nodes and --spares over the nodes there are, with the worlds that the batch sizes allow.
NodePool::Options node_options(const RunOptions& options, const BatchRequest& batch,
                               std::vector<PoolNode> nodes) {
  NodePool::Options pool;
  pool.nodes = std::move(nodes);
  pool.spares = options.spares;
  const bool may_shrink = batch.elastic || (options.nodes && options.nodes->max >= 0);
  const auto there = static_cast<int64_t>(pool.nodes.size());
  if (options.nodes && options.nodes->min > there) {
    throw UsageError(fmt::format("--nodes: at least {} are wanted, there are {}",
                                 options.nodes->min, there));
  }
  if (options.nodes) {
    const int64_t most = options.nodes->max >= 0 ? options.nodes->max : options.nodes->min;
    pool.nodes.resize(static_cast<size_t>(std::min(there, most + options.spares)));
  }
  if (may_shrink) {
    pool.min_nodes = options.nodes ? static_cast<int>(options.nodes->min) : 1;
    size_t ranks = 0;
    for (size_t i = 0; i + static_cast<size_t>(options.spares) < pool.nodes.size(); ++i) {
      ranks += pool.nodes[i].slots.size();
    }
    int first = static_cast<int>(ranks);
    while (first > 1 && !same_batch(batch, first, first)) --first;
    pool.fits = [batch, first](int count) { return same_batch(batch, first, count); };
  }
  return pool;
}

TrainingJob make_job(const RunOptions& options, const Surroundings& surroundings) {
  if (options.launcher != "local") {
    throw Unsupported(fmt::format("--launcher {}: this build starts ranks on this machine only; "
                                  "use --launcher local",
                                  options.launcher));
  }
  TrainingJob job;
  job.config = load_job_config(options.config, options.overrides);
  job.shape = shape_of(options, job.config, this_machine(surroundings.visible_gpus));
  check_batch_sizes(job.config.batch, job.shape.ranks);
  job.resume = options.resume.value_or(job.config.resume);
  job.timeout = options.timeout;
  job.hang.floor = options.hang_after.value_or(job.hang.floor);
  job.recovery.max_restarts = options.max_restarts;
  job.nodes = node_options(options, job.config.batch, {this_machine_as_node(job.shape.ranks)});
  require_program(surroundings.rank_program);
  return job;
}

std::string local_time_stamp() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(now));
}

void print_dry_run(const TrainingJob& job, const RunOptions& options,
                   const std::string& rank_program) {
  const std::string run_dir = options.run_dir
                                  ? options.run_dir->string()
                                  : fmt::format("runs/{}-<time>", job.config.stem);
  fmt::print("config   {} (sha256 {:.12})\n", options.config, job.config.digest);
  fmt::print("run dir  {}\n", run_dir);
  fmt::print("command  {} --from-stdin\n", rank_program);
  fmt::print("added to the environment  OMP_NUM_THREADS={}\n", job.shape.threads);
  for (int rank = 0; rank < job.shape.ranks; ++rank) {
    fmt::print("rank {:<4}this machine, {}\n", rank, format_count(job.shape.threads, "thread"));
  }
}

// A run that must resume and is not told from where continues the newest run of the same config.
std::optional<fs::path> wanted_directory(const TrainingJob& job, const RunOptions& options) {
  if (options.run_dir || job.resume != ResumeMode::kRequired) {
    return options.run_dir;
  }
  const auto newest = newest_resumable_run(fs::current_path(), job.config.stem);
  if (!newest) {
    throw InputMissing(fmt::format("--resume required: no runs/{}-* holds a checkpoint; name the "
                                   "run to continue with --run-dir",
                                   job.config.stem));
  }
  return newest;
}

int run_here(const TrainingJob& job, const RunOptions& options, const Surroundings& surroundings) {
  SignalWatch signals;
  Console::Options console_options = Console::detect(surroundings.no_colour);
  console_options.line_fd = options.json ? STDERR_FILENO : STDOUT_FILENO;
  Console console(console_options);
  const RunDirectory directory =
      RunDirectory::open(wanted_directory(job, options), fs::current_path(), job.config.stem,
                         local_time_stamp());
  console.line(fmt::format("run {}: {}, {} each", directory.shown(directory.path()),
                           format_count(job.shape.ranks, "rank"),
                           format_count(job.shape.threads, "thread")));
  for (const std::string& note : job.config.notes) {
    console.line("note: " + note);
  }
  LocalStarter starter({surroundings.rank_program,
                        rank_environment(surroundings.environment, job.shape.threads),
                        job.config.digest},
                       directory);
  Supervisor supervisor(job, directory, starter, signals, console);
  const RunRecord record = supervisor.run();
  if (const std::string text = failure_text(record, directory); !text.empty()) {
    console.error(text);
  }
  console.line(closing_text(record, directory));
  if (options.json) {
    fmt::print("{}", report_json(record));
  }
  return record.exit_code;
}

}  // namespace

int run_training_job(const RunOptions& options, const Surroundings& surroundings) {
  const TrainingJob job = make_job(options, surroundings);
  if (options.dry_run) {
    print_dry_run(job, options, surroundings.rank_program);
    return static_cast<int>(ExitCode::kDone);
  }
  return run_here(job, options, surroundings);
}

}  // namespace ds
