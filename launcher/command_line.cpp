#include "launcher/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "core/error.h"
#include "launcher/metrics_endpoint.h"
#include "launcher/watch_command_line.h"
#include "proto/build_info.h"

namespace ds {
namespace {

constexpr std::array kEngineVerbs{"generate", "plan"};

constexpr const char* kRunFooter =
    "Examples:\n"
    "  dslaunch train.json\n"
    "  dslaunch train.json --num-ranks 2 zero_optimization.stage=3 train.steps=100\n"
    "  dslaunch train.json --run-dir runs/mine --resume auto\n"
    "  dslaunch train.json --dry-run\n"
    "  dslaunch --hostfile hosts train.json\n"
    "  dslaunch --hostfile hosts --exclude node-2:3 --launcher mpi train.json\n"
    "\n"
    "Ctrl-C stops at the end of the step, saves and exits with 75; a second Ctrl-C kills everything.\n"
    "After a crash, a hang or the loss of a host the run starts again from the newest checkpoint, at\n"
    "most --max-restarts times; what a rank itself finds wrong ends it at once.\n"
    "Exit codes: 0 done, 1 training failed, 2 usage, 65 bad data, 66 input missing, 69 cluster\n"
    "unusable, 70 internal error, 74 storage, 75 saved and wants to run again, 76 restarts or nodes\n"
    "used up, 77 validation failed, 78 configuration, 124 --timeout, 128+n signal n.";

constexpr const char* kTopHelp =
    "dslaunch trains neural networks from one DeepSpeed JSON file.\n"
    "\n"
    "Usage: dslaunch [run] train.json [key.path=value ...] [options]\n"
    "       dslaunch VERB ...\n"
    "\n"
    "Verbs (each has --help with examples):\n"
    "  run        train; the verb may be left out\n"
    "  plan       memory, communication and FLOPs of a job, without running it\n"
    "  generate   text from a trained model\n"
    "  check      everything that is wrong with a configuration\n"
    "  preflight  everything that is wrong with the hosts of a job\n"
    "  explain    values of a configuration and where they come from\n"
    "  elastic    batch size and worlds of an elastic job\n"
    "  schema     the JSON Schema of train.json\n"
    "  status     where a run is, or how it ended\n"
    "  top        the same, renewed every second\n"
    "  tail       the logs of all ranks, equal lines folded\n"
    "  stack      what every thread of every rank does right now\n"
    "  ctl        save, stop, pause or resume a running job, or let hosts join it\n"
    "\n"
    "Options:\n"
    "  --help, --version\n"
    "\n"
    "First steps:\n"
    "  dslaunch examples/kjv/train.json\n"
    "  dslaunch generate runs/latest --prompt \"In the beginning\"\n"
    "  dslaunch status runs/latest\n"
    "  dslaunch run --help\n";

// What CLI11 fills in before it becomes RunOptions.
struct RawRun {
  RunOptions options;
  std::string resume;
  std::string timeout;
  std::string time_limit;
  std::string bind_core_list;
  std::string run_dir;
  std::string nodes;
  std::string hang_after;
  std::string wait_for_hosts;
  std::string metrics_textfile;
  std::string metrics_listen;
  std::string hostfile;
  std::string master_addr;
  std::string env_file;
  int num_nodes = 0;
  int num_gpus = 0;
  int ssh_port = 0;
  int num_ranks = 0;
  int num_threads = 0;
};

CLI::Validator count_check() { return CLI::Range(1, 1 << 16).description(""); }

// DeepSpeed's spellings, with underscores, are accepted beside ours.
void describe_hosts(CLI::App& app, RawRun& raw) {
  HostOptions& hosts = raw.options.hosts;
  const char* const group = "Several hosts";
  app.add_option("-H,--hostfile", raw.hostfile,
                 "Lines 'HOST slots=N' (default: /job/hostfile where it is, else this machine)")
      ->group(group);
  app.add_option("-i,--include", hosts.include, "HOST[:SLOT[,SLOT]][@HOST...] of the hostfile")
      ->group(group);
  app.add_option("-e,--exclude", hosts.exclude, "The same, left out")->group(group);
  app.add_option("--num-nodes,--num_nodes", raw.num_nodes, "The first N hosts")
      ->check(count_check())
      ->type_name("N")
      ->group(group);
  app.add_option("--num-gpus,--num_gpus,--num-accelerators,--num_accelerators", raw.num_gpus,
                 "The first N slots of each host; without hosts, ranks of this machine")
      ->check(count_check())
      ->type_name("N")
      ->group(group);
  app.add_option("--launcher", hosts.launcher,
                 "local, ssh, mpi, slurm; auto: what hostfile and Slurm allocation suggest")
      ->capture_default_str()
      ->group(group);
  app.add_option("--launcher-args,--launcher_args", hosts.launcher_args,
                 "More words for ssh, mpirun or srun, such as --launcher-args='-F my_ssh_config'")
      ->group(group);
  app.add_option("--ssh-port,--ssh_port", raw.ssh_port, "Default: what ssh is configured for")
      ->check(CLI::Range(1, 65535).description(""))
      ->type_name("PORT")
      ->group(group);
  app.add_option("--master-addr,--master_addr", raw.master_addr,
                 "Address of this machine that the hosts reach (default: from the routes to them)")
      ->group(group);
  app.add_option("--master-port,--master_port", hosts.master_port, "Default: any free one")
      ->check(CLI::Range(0, 65535).description(""))
      ->type_name("PORT")
      ->group(group);
  app.add_option("--env", hosts.environment, "NAME=VALUE, or NAME with its value here, for every rank")
      ->take_all()
      ->allow_extra_args(false)
      ->group(group);
  app.add_option("--env-file,--env_file", raw.env_file,
                 "Lines NAME=VALUE (default: .deepspeed_env here or at home)")
      ->group(group);
}

void describe_binding(CLI::App& app, RawRun& raw) {
  const char* const group = "Cores";
  app.add_flag("--bind-cores-to-rank,--bind_cores_to_rank", raw.options.binding.bind,
               "Every rank gets cores of its own, of one memory node where that is possible")
      ->group(group);
  app.add_option("--bind-core-list,--bind_core_list", raw.bind_core_list,
                 "The same, with these cores of every host: 0,2-5, as the kernel numbers them")
      ->type_name("LIST")
      ->group(group);
  app.add_flag("--report-bindings", raw.options.binding.report, "Print on which cores each slot runs")
      ->group(group);
}

void describe_run(CLI::App& app, RawRun& raw) {
  app.add_option("config", raw.options.config, "train.json: the DeepSpeed keys, model, data, train")
      ->required();
  app.add_option("overrides", raw.options.overrides,
                 "key.path=value changes the config for this run");
  app.add_option("--num-ranks", raw.num_ranks,
                 "Ranks (default: the GPUs, else one per 2 cores)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", raw.num_threads, "CPU threads per rank (default: cores / ranks)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--resume", raw.resume,
                 "From the newest checkpoint: if there is one, necessarily, or not (default: the config's)")
      ->check(CLI::IsMember({"auto", "required", "never"}));
  app.add_flag("--accept-changes", raw.options.accept_changes,
               "Go on from a checkpoint although data, seed, batch size or sequence length have changed since");
  app.add_option("--run-dir", raw.run_dir, "Where everything goes (default: runs/<config>-<time>)");
  app.add_option("--timeout", raw.timeout, "Save and exit with 124 after this time: 90, 10m, 2h");
  app.add_option("--time-limit", raw.time_limit,
                 "Somebody ends the job after this time: save and exit with 75 before (default: what "
                 "Slurm says; none: nobody)")
      ->type_name("TIME|none");
  app.add_option("--max-restarts", raw.options.max_restarts,
                 "Restarts after crashes, hangs and lost hosts, each from the newest checkpoint")
      ->check(CLI::Range(0, 1000000).description(""))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--wait-for-hosts", raw.wait_for_hosts,
                 "With too few hosts left, how long lost ones have to come back (default: 60s; 0: that is the end)")
      ->type_name("TIME");
  app.add_option("--hang-after", raw.hang_after,
                 "A rank without progress for this time, and for 5 steps, hangs (default: 30s)")
      ->type_name("TIME");
  app.add_option("--nodes", raw.nodes,
                 "Nodes to train on, N or MIN:MAX; with MIN:MAX the world shrinks when nodes are lost")
      ->type_name("N|MIN:MAX");
  app.add_option("--spares", raw.options.spares, "Nodes held back to replace lost ones")
      ->check(CLI::Range(0, 1 << 16).description(""))
      ->type_name("N");
  describe_hosts(app, raw);
  describe_binding(app, raw);
  app.add_flag("--audit-samples", raw.options.audit_samples,
               "Log the samples of every rank and step: logs/samples-rank-<r>.jsonl");
  app.add_option("--metrics-listen", raw.metrics_listen,
                 "Serve /metrics for Prometheus over HTTP, to everybody who reaches that address")
      ->type_name("ADDRESS:PORT");
  app.add_option("--metrics-textfile", raw.metrics_textfile,
                 "Keep a Prometheus text file up to date, for node_exporter's textfile collector")
      ->type_name("FILE");
  app.add_flag("--dry-run", raw.options.dry_run, "Check, print what would be started, start nothing");
  app.add_flag("--json", raw.options.json, "Print report.json on standard output at the end");
  app.footer(kRunFooter);
}

// Whether the key exists is the config's business; that it is no stray word is ours.
void check_overrides(const std::vector<std::string>& overrides) {
  for (const std::string& text : overrides) {
    if (!text.starts_with('~') && text.find('=') == std::string::npos) {
      throw UsageError(fmt::format("'{}': expected key.path=value or ~key.path", text));
    }
  }
}

void finish_hosts(const CLI::App& app, const RawRun& raw, RunOptions& options) {
  HostOptions& hosts = options.hosts;
  const auto given = [&](const char* option) { return app.count(option) > 0; };
  if (given("--hostfile")) hosts.hostfile = raw.hostfile;
  if (given("--master-addr")) hosts.master_addr = raw.master_addr;
  if (given("--env-file")) hosts.environment_file = raw.env_file;
  if (given("--num-nodes")) hosts.num_nodes = raw.num_nodes;
  if (given("--num-gpus")) hosts.num_gpus = raw.num_gpus;
  if (given("--ssh-port")) hosts.ssh_port = raw.ssh_port;
  if (hosts.launcher != "auto") runner_named(hosts.launcher);  // refuses what is unknown
}

// What runs and their preflight have in common.
RunOptions finish_common(const CLI::App& app, const RawRun& raw) {
  RunOptions options = raw.options;
  check_overrides(options.overrides);
  if (app.count("--num-ranks") > 0) {
    options.num_ranks = raw.num_ranks;
  }
  if (app.count("--num-threads") > 0) {
    options.num_threads = raw.num_threads;
  }
  if (app.count("--run-dir") > 0) {
    if (raw.run_dir.empty()) {
      throw UsageError("--run-dir: the path is empty");
    }
    options.run_dir = raw.run_dir;
  }
  finish_hosts(app, raw, options);
  return options;
}

RunOptions finish_run(const CLI::App& app, const RawRun& raw) {
  RunOptions options = finish_common(app, raw);
  if (!raw.resume.empty()) {
    const std::map<std::string, ResumeMode> modes{{"auto", ResumeMode::kAuto},
                                                  {"required", ResumeMode::kRequired},
                                                  {"never", ResumeMode::kNever}};
    options.resume = modes.at(raw.resume);
  }
  if (!raw.wait_for_hosts.empty()) {
    options.wait_for_hosts =
        raw.wait_for_hosts == "0" ? Time::zero() : parse_duration(raw.wait_for_hosts);
  }
  if (!raw.hang_after.empty()) {
    options.hang_after = parse_duration(raw.hang_after);
  }
  if (!raw.nodes.empty()) {
    options.nodes = parse_node_count(raw.nodes, Elasticity::kOn);
    if (options.nodes->min < 1 || (options.nodes->max >= 0 && options.nodes->max < options.nodes->min)) {
      throw UsageError(fmt::format("--nodes {}: expected N or MIN:MAX, at least 1, ascending", raw.nodes));
    }
  }
  if (!raw.metrics_listen.empty()) {
    MetricsEndpoint::check(raw.metrics_listen);
    options.metrics_listen = raw.metrics_listen;
  }
  if (!raw.metrics_textfile.empty()) {
    options.metrics_textfile = std::filesystem::absolute(raw.metrics_textfile);
  }
  if (app.count("--timeout") > 0) {
    options.timeout = parse_duration(raw.timeout);
  }
  if (app.count("--time-limit") > 0) {
    options.ask_for_time_limit = false;
    if (raw.time_limit != "none") options.time_limit = parse_duration(raw.time_limit);
  }
  if (app.count("--bind-core-list") > 0) options.binding.cores = parse_core_list(raw.bind_core_list);
  if (options.hosts.num_nodes && options.nodes) {
    throw UsageError("--nodes and --num-nodes both say how many hosts; give one of them");
  }
  return options;
}

CommandLine parse_run(const std::vector<std::string>& arguments) {
  CLI::App app("Train a model as train.json says", "dslaunch run");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  RawRun raw;
  describe_run(app, raw);
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  return finish_run(app, raw);
}

CommandLine parse_preflight(const std::vector<std::string>& arguments) {
  CLI::App app("Whether every host is fit for a job: one report of everything that is wrong with any of them",
               "dslaunch preflight");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  RawRun raw;
  PreflightOptions options;
  app.add_option("config", raw.options.config, "train.json: what the job needs is then checked, too");
  app.add_option("overrides", raw.options.overrides, "key.path=value changes the config");
  app.add_option("--num-ranks", raw.num_ranks, "Ranks on this machine, without hosts")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", raw.num_threads, "CPU threads per rank")
      ->check(count_check())
      ->type_name("N");
  app.add_flag("--accept-changes", raw.options.accept_changes,
               "Go on from a checkpoint although data, seed, batch size or sequence length have changed since");
  app.add_option("--run-dir", raw.run_dir, "Where the run will lie (default: below runs/)");
  describe_hosts(app, raw);
  app.add_flag("--json", options.json, "One JSON object: ok, and for each host its facts and findings");
  app.footer(
      "Examples:\n"
      "  dslaunch preflight train.json\n"
      "  dslaunch preflight --hostfile hosts train.json --run-dir /shared/runs/one\n"
      "  dslaunch preflight --hostfile hosts --json\n"
      "\n"
      "0: every host can be used; 69: at least one cannot. Every run begins with a short form of this.");
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  options.run = finish_common(app, raw);
  return options;
}

CommandLine parse_check(const std::vector<std::string>& arguments) {
  CLI::App app("Everything that is wrong with a configuration, at once", "dslaunch check");
  CheckOptions options;
  int64_t ranks = 0;
  app.add_option("config", options.config, "train.json")->required();
  app.add_option("overrides", options.overrides, "key.path=value ...");
  app.add_option("--num-ranks", ranks, "Also check the batch sizes for so many ranks")
      ->check(count_check())
      ->type_name("N");
  app.footer("Examples:\n  dslaunch check train.json\n  dslaunch check train.json --num-ranks 8");
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  check_overrides(options.overrides);
  options.num_ranks = ranks > 0 ? std::optional(ranks) : std::nullopt;
  return options;
}

CommandLine parse_explain(const std::vector<std::string>& arguments) {
  CLI::App app("Values of a configuration and where they come from", "dslaunch explain");
  ExplainOptions options;
  std::vector<std::string> words;
  app.add_option("config", options.config, "train.json")->required();
  app.add_option("words", words, "One key to explain, and key.path=value overrides")
      ->type_name("[KEY] [KEY=VALUE ...]");
  app.add_option("--num-ranks", options.num_ranks, "Ranks that complete the batch sizes")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.footer(
      "Examples:\n"
      "  dslaunch explain train.json\n"
      "  dslaunch explain train.json zero_optimization.stage\n"
      "  dslaunch explain train.json train_batch_size --num-ranks 4 gradient_accumulation_steps=2");
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  for (const std::string& word : words) {
    if (word.starts_with('~') || word.find('=') != std::string::npos) {
      options.overrides.push_back(word);
    } else if (options.key) {
      throw UsageError(fmt::format("'{}': one key at a time, '{}' is already asked for", word,
                                   *options.key));
    } else {
      options.key = word;
    }
  }
  return options;
}

CommandLine parse_elastic(const std::vector<std::string>& arguments) {
  CLI::App app("Batch size and worlds of an elastic job, and what losing nodes does",
               "dslaunch elastic");
  ElasticVerbOptions options;
  bool json = false;
  app.add_option("config", options.config, "train.json with an elasticity section")->required();
  app.add_option("overrides", options.overrides, "key.path=value ...");
  app.add_option("-w,--world-size", options.world_size, "Also the micro batch for so many ranks")
      ->check(CLI::NonNegativeNumber.description(""))
      ->type_name("N");
  app.add_option("--nodes", options.nodes, "Nodes of the job, for the table of losses")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--devices-per-node", options.devices_per_node, "Ranks on each node")
      ->check(count_check())
      ->type_name("N")
      ->capture_default_str();
  app.add_flag("--json", json, "Print final_batch_size, valid_gpus and micro_batch_size as JSON");
  app.footer(
      "Examples:\n"
      "  dslaunch elastic train.json --nodes 4 --devices-per-node 8\n"
      "  dslaunch elastic train.json --world-size 16 --json");
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  check_overrides(options.overrides);
  options.output = json ? ElasticOutput::kJson : ElasticOutput::kText;
  return options;
}

CommandLine parse_schema(const std::vector<std::string>& arguments) {
  CLI::App app("The JSON Schema of train.json, for editors", "dslaunch schema");
  bool markdown = false;
  app.add_flag("--markdown", markdown, "The same as a page to read");
  app.footer("Examples:\n  dslaunch schema > train.schema.json\n  dslaunch schema --markdown");
  if (auto info = parse_into(app, arguments)) {
    return *info;
  }
  return markdown ? SchemaForm::kMarkdown : SchemaForm::kJsonSchema;
}

std::string version_text() {
  const BuildInfo build = build_info();
  return fmt::format("dslaunch {} (commit {}; CUDA {}, MPI {})\n", build.version, build.git_id,
                     build.has_cuda ? "yes" : "no", build.has_mpi ? "yes" : "no");
}

}  // namespace

std::optional<InfoText> parse_into(CLI::App& app, std::vector<std::string> arguments) {
  std::ranges::reverse(arguments);  // CLI11 takes them from the back
  try {
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    return InfoText{app.help()};
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{} (see `{} --help`)", error.what(), app.get_name()));
  }
  return std::nullopt;
}

Time parse_duration(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, value);
  const std::string_view unit(parsed.ptr, static_cast<size_t>(end - parsed.ptr));
  const std::map<std::string_view, double> units{{"", 1}, {"s", 1}, {"m", 60}, {"h", 3600}};
  const auto scale = units.find(unit);
  constexpr double kLongest = 3600.0 * 24 * 3650;  // ten years: far below the overflow of Time
  if (parsed.ec != std::errc() || scale == units.end() || !(value > 0) ||
      value * scale->second > kLongest) {
    throw UsageError(fmt::format("duration '{}': expected a positive number and s, m or h", text));
  }
  return std::chrono::duration_cast<Time>(std::chrono::duration<double>(value * scale->second));
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  if (arguments.empty()) {
    throw UsageError(fmt::format("no config given\n\n{}", kTopHelp));
  }
  const std::string& first = arguments.front();
  if (first == "--version") {
    return InfoText{version_text()};
  }
  if (first == "--help" || first == "-h" || first == "help") {
    return InfoText{kTopHelp};
  }
  if (first == "agent" && arguments.size() == 1) {
    return AgentOptions{};
  }
  if (std::ranges::find(kEngineVerbs, first) != kEngineVerbs.end()) {
    return EngineVerb{arguments};
  }
  if (is_watch_verb(first)) {
    return parse_watch({arguments.begin(), arguments.end()});
  }
  const std::map<std::string, CommandLine (*)(const std::vector<std::string>&)> verbs{
      {"run", parse_run},         {"check", parse_check},   {"explain", parse_explain},
      {"elastic", parse_elastic}, {"schema", parse_schema}, {"preflight", parse_preflight}};
  const auto verb = verbs.find(first);
  return verb == verbs.end() ? parse_run(arguments)
                             : verb->second({arguments.begin() + 1, arguments.end()});
}

}  // namespace ds
