#include "launcher/verbs/run.h"

#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <numeric>
#include <set>

#include "cli/failure.h"
#include "cli/text/terminal_text.h"
#include "cli/verbs/run.h"
#include "core/status/error.h"
#include "core/tasks/task_limits.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "launcher/agents/host_world.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/process/local_world.h"
#include "launcher/process/machine.h"
#include "launcher/process/run_lease.h"
#include "launcher/report/progress.h"
#include "launcher/report/run_records.h"
#include "launcher/run/data_date.h"
#include "launcher/run/job_backend.h"
#include "launcher/run/job_config.h"
#include "launcher/run/job_devices.h"
#include "launcher/run/job_end.h"
#include "launcher/run/job_hosts.h"
#include "launcher/run/supervisor.h"
#include "launcher/verbs/bound_ranks.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/input_look.h"
#include "launcher/verbs/preflight.h"
#include "launcher/verbs/started.h"
#include "proto/control.pb.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

// A missing program should be said before a run directory is made for it.
void require_program(const std::string& path) {
  if (access(path.c_str(), X_OK) != 0) {
    throw InputMissing(
        fmt::format("{} is missing; it belongs beside dslaunch or into ../libexec/dslaunch", path));
  }
}

PoolNode this_machine_as_node(int ranks) {
  PoolNode node;
  node.slots.resize(to_size(ranks));
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
  const auto there = narrow<int64_t>(pool.nodes.size());
  if (options.nodes) {
    if (options.nodes->min > there) {
      throw UsageError(
          fmt::format("--nodes: at least {} are wanted, there are {}", options.nodes->min, there));
    }
    const int64_t most = options.nodes->max >= 0 ? options.nodes->max : options.nodes->min;
    pool.max_nodes = static_cast<int>(most);
    pool.nodes.resize(to_size(std::min(there, most + options.spares)));
  }
  if (may_shrink) {
    pool.min_nodes = options.nodes ? static_cast<int>(options.nodes->min) : 1;
    size_t ranks = 0;
    for (size_t i = 0; i + to_size(options.spares) < pool.nodes.size(); ++i) {
      ranks += pool.nodes[i].slots.size();
    }
    int first = static_cast<int>(ranks);
    while (first > 1 && !same_batch(batch, first, first)) --first;
    pool.fits = [batch, first](int count) { return same_batch(batch, first, count); };
    pool.unit = batch.model_ranks;
  }
  return pool;
}

// The hosts as they were chosen; nothing was said about this machine: as many ranks as fit.
std::vector<PoolNode> nodes_of(const HostChoice& choice, int local_ranks) {
  if (choice.hosts.empty()) {
    return {this_machine_as_node(local_ranks)};
  }
  std::vector<PoolNode> nodes;
  for (const HostSlots& host : choice.hosts) {
    nodes.push_back({choice.kind == RunnerKind::kLocal ? "" : host.name, host.slots});
  }
  return nodes;
}

// --num-gpus without hosts means the ranks of this machine, as DeepSpeed has it.
RunOptions with_local_ranks(RunOptions options, const HostChoice& choice) {
  if (choice.hosts.empty() && options.hosts.num_gpus) {
    if (options.num_ranks && *options.num_ranks != *options.hosts.num_gpus) {
      throw UsageError("--num-ranks and --num-gpus say different numbers of ranks");
    }
    options.num_ranks = options.hosts.num_gpus;
  }
  if (!choice.hosts.empty() && options.num_ranks) {
    throw UsageError(
        "--num-ranks: the slots of the hosts say how many ranks; use --num-gpus (slots "
        "of each host), --num-nodes, --include or --exclude");
  }
  return options;
}

void limit_time(TrainingJob& job, const RunOptions& options, const CommandContext& context) {
  job.time_limit = options.time_limit;
  job.limited_by = "--time-limit";
  if (!options.ask_for_time_limit || options.dry_run) return;
  TimeLeft slurm = slurm_time_left(context.environment, std::time(nullptr));
  job.time_limit = slurm.left;
  job.limited_by = "Slurm";
  if (!slurm.note.empty()) job.config.notes.push_back(std::move(slurm.note));
}

// It is replaced whole, again and again: a pipe or a folder of that name would be lost, or never
// take it.
void check_textfile(const fs::path& path) {
  std::error_code error;
  const fs::file_status there = fs::status(path, error);
  if (fs::exists(there) && !fs::is_regular_file(there)) {
    throw UsageError(fmt::format(
        "--metrics-textfile {}: is no plain file; name one that is, or is not there yet",
        path.string()));
  }
  if (!fs::is_directory(path.parent_path(), error)) {
    throw UsageError(fmt::format("--metrics-textfile {}: there is no folder {}", path.string(),
                                 path.parent_path().string()));
  }
}

TrainingJob make_job(const RunOptions& given, const HostChoice& choice, const JobDevices& devices,
                     const CommandContext& context, const std::optional<StartedPlace>& place) {
  const RunOptions options = with_local_ranks(given, choice);
  TrainingJob job;
  job.config = options.generation ? generation_config(options.generation->SerializeAsString())
                                  : load_job_config(options.config, options.overrides);
  job.generation = options.generation;
  // The plan of a dry run says itself what a build lacks, after where each rank would go.
  if (!options.dry_run) require_device(options.devices.wish, build_devices());
  Machine machine = this_machine(context.visible_gpus);
  if (choice.hosts.empty()) machine.gpus = devices.local_gpus();
  job.shape = local_shape(job.config, machine, options.num_ranks, options.num_threads);
  job.nodes = node_options(options, job.config.batch, nodes_of(choice, job.shape.ranks));
  if (!choice.hosts.empty()) {
    const auto world = NodePool(job.nodes).next_world();
    job.shape = choose_shape(machine, world ? narrow<int>(world->size()) : 1, options.num_threads);
  }
  check_batch_sizes(job.config.batch, job.shape.ranks);
  job.resume = options.resume.value_or(job.config.resume);
  job.resume_tag = options.resume_tag;
  job.timeout = options.timeout;
  limit_time(job, options, context);
  job.coordinator_port = options.hosts.master_port;
  job.hang.floor = options.waits.hang_after.value_or(job.hang.floor);
  job.join_timeout = options.waits.join;
  job.audit_samples = options.audit_samples;
  job.becomes_latest = !options.for_another_verb;
  job.accept_changes = options.accept_changes;
  job.metrics_textfile = options.metrics.textfile;
  if (job.metrics_textfile) check_textfile(*job.metrics_textfile);
  job.metrics_listen = options.metrics.listen;
  job.recovery.max_restarts = options.max_restarts;
  job.recovery.wait_for_hosts = options.waits.hosts;
  job.recovery.wait_for_room = options.waits.room;
  choose_backend(job, choice, as_environment(context.environment), place);
  job.config.notes.insert(job.config.notes.end(), choice.notes.begin(), choice.notes.end());
  require_program(context.rank_program);
  return job;
}

void print_dry_run(const TrainingJob& job, const RunOptions& options, const JobHosts& hosts,
                   const RankBinding& binding, const std::string& rank_program) {
  const std::string run_dir =
      options.run_dir ? options.run_dir->string() : fmt::format("runs/{}-<time>", job.config.stem);
  say("config   {} (sha256 {:.12})\n", options.config, job.config.digest);
  say("run dir  {}\n", run_dir);
  for (const std::string& note : hosts.choice.notes) {
    say("note     {}\n", note);
  }
  if (hosts.agents) {
    for (const HostSlots& host : hosts.choice.hosts) {
      const std::vector<std::string> argv =
          agent_command(hosts.agents->kind, host.name, hosts.agents->runner);
      say("agent    {}\n", fmt::join(argv, " "));
    }
  }
  say("command  {} --from-stdin\n", rank_program);
  say("added to the environment  {}\n", names_of(hosts.exported));
  const auto world = NodePool(job.nodes).next_world();
  for (size_t rank = 0; world && rank < world->size(); ++rank) {
    const RankPlacement& place = (*world)[rank];
    const std::string where =
        place.host.empty() ? "this machine" : fmt::format("{} slot {}", place.host, place.slot);
    const std::string threads = hosts.agents && !options.num_threads
                                    ? "its share of the host's cores"
                                    : format_count(job.shape.threads, "thread");
    const std::string cores =
        rank < binding.report.size()
            ? ", " + binding.report[rank].substr(binding.report[rank].find("cores"))
            : "";
    say("rank {:<4}{}, {}{}\n", rank, where, threads, cores);
  }
}

// What every run needs, wherever its ranks are.
struct RunServices {
  SignalWatch& signals;
  Console& console;
  const JobDevices& devices;
  StartedGroup* group = nullptr;  // where mpirun or srun started many dslaunch
};

// Says it to the ranks and to the user.
void choose(TrainingJob& job, const RunServices& services, const RankDevices& devices) {
  require_device_of(job.config.backend, devices.device);
  job.device = devices.device;
  job.slot_gpus = services.devices.slot_gpus();
  job.config.notes.insert(job.config.notes.end(), devices.notes.begin(), devices.notes.end());
}

// A run that must resume and is not told from where continues the newest run of the same config.
std::optional<fs::path> wanted_directory(const TrainingJob& job, const RunOptions& options) {
  const bool must = job.resume == ResumeMode::kRequired || !job.resume_tag.empty();
  if (options.run_dir || !must) return options.run_dir;
  const auto newest = newest_resumable_run(fs::current_path(), job.config.stem);
  if (!newest) {
    throw InputMissing(fmt::format(
        "--resume {}: no runs/{}-* holds a checkpoint; name the run to continue with --run-dir",
        job.resume_tag.empty() ? "required" : job.resume_tag, job.config.stem));
  }
  return newest;
}

// Before anything is made or started, where this machine can see that.
void require_resume_tag(const TrainingJob& job, const fs::path& run_directory) {
  if (job.resume_tag.empty() || !job.config.shares_directory) return;
  const fs::path root = run_directory / "checkpoints";
  std::error_code error;
  if (fs::is_directory(root / job.resume_tag, error)) return;
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const std::string name = entry.path().filename().string();
    if (checkpoint_named(name)) there.insert(name);
  }
  throw InputMissing(fmt::format("--resume {}: {} has no checkpoint of that name; {}",
                                 job.resume_tag, root.string(),
                                 there.empty() ? std::string("it has none")
                                               : fmt::format("it has {}", fmt::join(there, ", "))));
}

// The directory of the run, and with it the right to write there.
struct OpenRun {
  RunDirectory directory;
  RunLease lease;
};

OpenRun open_run(const TrainingJob& job, const RunOptions& options, RunServices services) {
  Console& console = services.console;
  const std::optional<fs::path> wanted = wanted_directory(job, options);
  if (wanted) refuse_deepspeed_folder(*wanted);
  if (wanted) require_resume_tag(job, *wanted);
  RunDirectory directory =
      RunDirectory::open(wanted, fs::current_path(), job.config.stem, local_time_stamp());
  std::optional<int> signal;
  const RunLease::Patience patience{
      .watching =
          [&](const Lease& holder) {
            console.line(
                fmt::format("{} was last used by {}; watching whether it still is, up to {}",
                            directory.shown(directory.path()), describe(holder),
                            format_duration(kLeasePatience)));
          },
      .interrupted = [&] { return signal || (signal = services.signals.take()); }};
  const auto take = [&] {
    try {
      return RunLease::take(directory.path(), patience);
    } catch (const LeaseRefused& refused) {
      if (signal) throw Error(static_cast<ExitCode>(128 + *signal), refused.what());
      throw;
    }
  };
  RunLease lease = take();
  if (!job.generation) {
    console.line(fmt::format("run {}: {}, {} each", directory.shown(directory.path()),
                             format_count(job.shape.ranks, "rank"),
                             format_count(job.shape.threads, "thread")));
  }
  for (const std::string& note : job.config.notes) {
    console.line("note: " + note);
  }
  return {std::move(directory), std::move(lease)};
}

void learn_past(TrainingJob& job, const RunDirectory& directory, Console& console) {
  std::string& config = job.config.canonical_text;
  config = dated(config, directory.path(), std::time(nullptr));
  job.past = past_progress(directory.path());
  if (job.past.unsaved_step > 0 && job.resume == ResumeMode::kAuto) {
    console.line(fmt::format(
        "note: an earlier launch here reached step {} and saved nothing; training begins anew",
        job.past.unsaved_step));
  }
}

RunRecords::Options record_options(const TrainingJob& job) {
  RunRecords::Options out;
  out.metrics_textfile = job.metrics_textfile;
  out.becomes_latest = job.becomes_latest;
  out.plot_title = fmt::format("loss, {}", job.config.stem);
  out.log_every = job.config.log_every;
  return out;
}

RankLog log_of(RunRecords& records) {
  return [&records](int rank, std::string_view line) { records.rank_line(rank, line); };
}

int supervise(const TrainingJob& job, const RunOptions& options, RunRecords& records,
              WorldStarter& starter, RunServices services) {
  Supervisor supervisor(job, records, starter, services.signals, services.console);
  const RunRecord record = supervisor.run();
  const RunDirectory& directory = records.directory();
  if (const std::string text = failure_text(record, directory); !text.empty()) {
    services.console.error(text);
    if (options.generation && options.json) {
      services.console.result(failure_json(text, record.exit_code));
    }
  }
  if (!options.generation) services.console.closing_line(closing_text(record, directory));
  if (options.json && !options.for_another_verb) {
    services.console.result(report_json(record));
  }
  return record.exit_code;
}

std::vector<RankPlacement> first_world(const TrainingJob& job) {
  return Recovery(job.recovery, NodePool(job.nodes)).first_world();
}

int run_here(TrainingJob job, const RunOptions& options, const JobHosts& hosts,
             const CommandContext& context, RunServices services) {
  const std::vector<RankPlacement> world = first_world(job);
  const RankDevices devices = services.devices.place_here(world);
  choose(job, services, devices);
  require_fit_machine(job, options, world, context);
  RankBinding binding = bind_here(options, job.shape, services.group);
  if (!options.num_threads) job.shape.threads = binding.threads.value_or(job.shape.threads);
  if (!options.generation) {  // whose inputs the ranks know best
    const PlannedRun run{.ranks = job.shape.ranks, .has_limits = job.device == Device::cpu()};
    for (std::string& note : require_inputs(options, run, context, services.signals)) {
      job.config.notes.push_back(std::move(note));
    }
  }
  OpenRun run = open_run(job, options, services);
  print_bindings(binding, services.console);
  learn_past(job, run.directory, services.console);
  RunRecords records(run.directory, std::move(run.lease), record_options(job));
  std::vector<std::string> environment = context.environment;
  environment.insert(environment.end(), hosts.exported.values.begin(), hosts.exported.values.end());
  environment = with_shell_values(std::move(environment), hosts.exported.shell_values);
  LocalStarter starter(
      {context.rank_program, rank_environment(with_last_values(environment), job.shape.threads),
       job.config.digest, std::move(binding.cores[""]),
       services.group ? services.group->slot_variables() : SlotVariables(), devices.gpus},
      run.directory, log_of(records));
  return supervise(job, options, records, starter, services);
}

// An equal share of the cores of the host that has the fewest for each rank.
int threads_on(const std::vector<ReachedHost>& reached, const std::vector<RankPlacement>& world) {
  int threads = std::numeric_limits<int>::max();
  for (const ReachedHost& host : reached) {
    for (const RankPlacement& place : world) {
      if (place.host == host.link->host()) {
        threads = std::min(threads, host.link->ready()->cores() / place.local_size);
      }
    }
  }
  return std::max(1, threads);
}

// Ctrl-C while hosts are being reached ends us as it would end any program.
std::vector<ReachedHost> reach_or_stop(HostAgents& agents, const std::vector<std::string>& hosts,
                                       RunServices services) {
  services.console.set_live(
      fmt::format("reaching {} ...", format_count(narrow<int64_t>(hosts.size()), "host")));
  try {
    return agents.reach(hosts);
  } catch (const HostsUnusable& error) {
    services.console.clear_live();
    if (const std::optional<int> signal = services.signals.take()) {
      throw Error(static_cast<ExitCode>(128 + *signal), error.what());
    }
    throw;
  }
}

int run_by_agents(HostAgents& agents, TrainingJob job, const RunOptions& options,
                  const JobHosts& hosts, const CommandContext& context, RunServices services) {
  const std::vector<RankPlacement> world = first_world(job);
  const std::vector<std::string> first_hosts = hosts_of(world);
  const std::vector<ReachedHost> reached = reach_or_stop(agents, first_hosts, services);
  const RankBinding binding = bind_on_hosts(options, job.nodes.nodes, reached, services.group);
  // Again for every epoch: spare hosts have cores of their own.
  const auto bind = [&](const std::vector<ReachedHost>& hosts_of_epoch) {
    return bind_on_hosts(options, job.nodes.nodes, hosts_of_epoch, services.group).cores;
  };
  job.shape.threads =
      options.num_threads.value_or(binding.threads.value_or(threads_on(reached, world)));
  const RankDevices devices = services.devices.place(world, reached);
  choose(job, services, devices);
  const auto place_gpus = [&](const std::vector<RankPlacement>& places,
                              const std::vector<ReachedHost>& hosts_of_epoch) {
    return services.devices.place_again(devices, places, hosts_of_epoch);
  };
  const auto examine = [&](const std::vector<RankPlacement>& places,
                           const std::vector<ReachedHost>& newcomers) {
    return require_fit_hosts(job, options, places, newcomers, context.rank_program);
  };
  const FitHosts fit = examine(world, reached);
  job.config.notes.insert(job.config.notes.end(), fit.notes.begin(), fit.notes.end());
  if (!options.generation) {
    for (std::string& note : notes_of_inputs(options, context, services.signals)) {
      job.config.notes.push_back(std::move(note));
    }
  }
  job.newest_epoch = fit.newest_epoch;
  job.read_nodes = [options, &context] {
    return nodes_of(gather_job_hosts(options.hosts, context.environment, context.own_program,
                                     options.devices.wish)
                        .choice,
                    0);
  };
  OpenRun run = open_run(job, options, services);
  print_bindings(binding, services.console);
  learn_past(job, run.directory, services.console);
  RunRecords records(run.directory, std::move(run.lease), record_options(job));
  HostWorldStarter starter(
      agents,
      {.program = context.rank_program,
       .directory = fs::current_path(),
       .environment = rank_environment(hosts.exported.values, job.shape.threads),
       .shell_environment = without_threads(hosts.exported.shell_values),
       .config_digest = job.config.digest,
       .variables = services.group ? services.group->slot_variables() : SlotVariables(),
       .cores = {},
       .bind = bind,
       .place_gpus = place_gpus,
       .examine = examine,
       .examined = {first_hosts.begin(), first_hosts.end()}},
      run.directory, log_of(records));
  return supervise(job, options, records, starter, services);
}

int run_on_hosts(const TrainingJob& job, const RunOptions& options, const JobHosts& hosts,
                 const CommandContext& context, RunServices services) {
  HostAgents::Options agent_options = *hosts.agents;
  agent_options.interrupt_fd = services.signals.fd();
  agent_options.tell = [&](const std::string& text) {
    services.console.line(fmt::format("note: {}", text));
  };
  HostAgents agents(std::move(agent_options));
  if (services.group) services.group->give_agents(agents);
  try {
    const int code = run_by_agents(agents, job, options, hosts, context, services);
    agents.end_with(code);
    return code;
  } catch (const Error& error) {
    agents.end_with(static_cast<int>(error.exit_code()));
    throw;
  }
}

// Their hosts are known when they have met; what is printed is right for one.
RunOptions with_started_ranks(RunOptions options, const StartedPlace& place) {
  if (options.num_ranks && *options.num_ranks != place.size) {
    throw UsageError(fmt::format("--num-ranks {}: {} has started {} dslaunch, one for each rank",
                                 *options.num_ranks, place.starter, place.size));
  }
  options.num_ranks.reset();
  options.waits.hosts = Time::zero();  // those that came by themselves cannot be called back
  if (options.dry_run || place.local_size == place.size) options.num_ranks = place.size;
  return options;
}

// Everything but a dry run, for whatever kind of start.
int train(const RunOptions& given, const CommandContext& context,
          const std::optional<StartedPlace>& place) {
  forbid_core_dumps();
  hide_from_same_user();  // from here on we hold the secrets of every rank
  SignalWatch signals;
  signals.enforce();
  std::optional<StartedGroup> group;
  if (place) group.emplace(*place, given, context, signals.fd());
  Console::Options console_options = Console::detect(context.no_colour);
  console_options.line_fd = given.json || given.for_another_verb ? STDERR_FILENO : STDOUT_FILENO;
  console_options.live = console_options.live && !place;  // its starter merges what many say
  Console console(console_options);
  const JobDevices devices(given.devices, build_devices(), own_gpus(context.visible_gpus),
                           group ? group->slot_gpus() : SlotGpus{});
  const RunServices services{signals, console, devices, group ? &*group : nullptr};
  const auto run = [&] {
    const RunOptions options = place ? with_started_ranks(given, *place) : given;
    const JobHosts hosts = group ? group->hosts(options, context)
                                 : gather_job_hosts(options.hosts, context.environment,
                                                    context.own_program, options.devices.wish);
    TrainingJob job = make_job(options, hosts.choice, devices, context, place);
    if (job.generation) {
      require_generation((*options.run_dir / kGenerationOrder).string(), job.shape.ranks, context,
                         signals);
    }
    if (group) {
      job.config.notes.push_back(group->note());
      job.authority = group->authority();
    }
    try {
      return hosts.agents ? run_on_hosts(job, options, hosts, context, services)
                          : run_here(job, options, hosts, context, services);
    } catch (const std::system_error& error) {
      if (const std::optional<Error> no_task = no_further_task(error)) throw Error(*no_task);
      throw;
    }
  };
  try {
    const int code = run();
    if (group) group->end_with(code);
    return code;
  } catch (const Error& error) {
    const int code = static_cast<int>(error.exit_code());
    console.error(error.what());  // before the others end, which may end us
    if (given.json) console.result(failure_json(error.what(), code));
    if (group) group->end_with(code);
    return code;
  }
}

}  // namespace

std::string local_time_stamp() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y%m%d-%H%M%S}", fmt::localtime(now));
}

int run_training_job(const RunOptions& options, const CommandContext& context) {
  const std::optional<StartedPlace> place = discover_start(as_environment(context.environment));
  if (place) require_same_local_rank(*place, options.hosts.local_rank);
  if (place && !place->is_launcher()) {
    return options.dry_run ? 0 : stand_by(*place, options, context);
  }
  if (!options.dry_run) return train(options, context, place);
  const RunOptions wanted = place ? with_started_ranks(options, *place) : options;
  const JobHosts hosts = place ? gather_started_hosts(wanted.hosts, context.environment,
                                                      context.own_program, place->starter, {})
                               : gather_job_hosts(wanted.hosts, context.environment,
                                                  context.own_program, wanted.devices.wish);
  const JobDevices devices(wanted.devices, build_devices(), own_gpus(context.visible_gpus), {});
  TrainingJob job = make_job(wanted, hosts.choice, devices, context, place);
  if (hosts.choice.hosts.empty()) require_device_of(job.config.backend, devices.local_device());
  RankBinding binding;
  if (!hosts.agents && wanted.binding.wants_topology()) {
    RunOptions reporting = wanted;
    reporting.binding.report = true;
    binding = bind_here(reporting, job.shape, nullptr);
    if (!wanted.num_threads) job.shape.threads = binding.threads.value_or(job.shape.threads);
  }
  const bool asked_for_gpus = wanted.devices.wish == DeviceWish::kCuda;
  EngineVerb plan =
      plan_verb(wanted, job.shape, asked_for_gpus ? Device::cuda(0) : devices.local_device());
  if (wanted.json) {
    plan.arguments.emplace_back("--json");
  } else {
    print_dry_run(job, wanted, hosts, binding, context.rank_program);
    say("\n");
    std::fflush(stdout);
  }
  become_engine(plan, context);
}

}  // namespace ds
