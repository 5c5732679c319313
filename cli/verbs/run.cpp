#include "cli/verbs/run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "cli/number_checks.h"
#include "cli/option_kinds.h"
#include "cli/typing.h"
#include "cli/verb_app.h"

namespace ds {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  dslaunch train.json\n"
    "  dslaunch train.json --num-ranks 2 zero_optimization.stage=3 train.steps=100\n"
    "  dslaunch train.json --run-dir runs/mine --resume auto\n"
    "  dslaunch train.json --resume runs/mine/checkpoints/global_step4\n"
    "  dslaunch train.json --dry-run\n"
    "  dslaunch --hostfile hosts train.json\n"
    "  dslaunch --hostfile hosts --exclude node-2:3 --launcher mpi train.json\n"
    "\n"
    "Ctrl-C stops at the end of the step, saves and exits with 75; a second Ctrl-C kills "
    "everything.\n"
    "After a crash, a hang or the loss of a host the run starts again from the newest checkpoint, "
    "at\n"
    "most --max-restarts times; what a rank itself finds wrong ends it at once.\n"
    "Exit codes: 0 done, 1 training failed, 2 usage, 65 bad data, 66 input missing, 69 cluster\n"
    "unusable, 70 internal error, 74 storage, 75 saved and wants to run again, 76 restarts or "
    "nodes\n"
    "used up, 77 validation failed, 78 configuration, 124 --timeout, 128+n signal n.";

void describe_binding(VerbApp& app, RunArgs& values) {
  const char* const group = "Cores";
  app.add_flag("--bind-cores-to-rank,--bind_cores_to_rank", values.binding.bind,
               "Every rank gets cores of its own, of one memory node where that is possible")
      ->group(group);
  app.add_option("--bind-core-list,--bind_core_list", values.binding.cores,
                 "The same, with these cores of every host: 0,2-5, as the kernel numbers them")
      ->type_name("LIST")
      ->group(group);
  app.add_flag("--report-bindings", values.binding.report, "Print on which cores each slot runs")
      ->group(group);
}

// When a run goes on, starts again, waits or gives up.
void describe_lifetime(VerbApp& app, RunArgs& values) {
  add_duration(app, "--timeout", values.timeout,
               "Save and exit with 124 after this time: 90, 10m, 2h");
  app.add_option(
         "--time-limit", values.time_limit,
         "Somebody ends the job after this time: save and exit with 75 before (default: what "
         "Slurm says; none: nobody)")
      ->type_name("TIME|none");
  app.add_option("--max-restarts", values.max_restarts,
                 "Restarts after crashes, hangs and lost hosts, each from the newest checkpoint")
      ->check(whole_check(0, 1000000))
      ->type_name("N")
      ->capture_default_str();
  app.add_option("--wait-for-hosts", values.wait_for_hosts,
                 "With too few hosts left, how long lost ones have to come back (default: 60s; 0: "
                 "that is the end)")
      ->type_name("TIME");
  app.add_option("--wait-for-room", values.wait_for_room,
                 "After saves that found the disk full, how long room has to come before the run "
                 "ends with 74 (default: 10m; 0: that is the end)")
      ->type_name("TIME");
  add_duration(app, "--hang-after", values.hang_after,
               "A rank without progress for this time, and for 5 steps, hangs (default: 30s)");
  add_duration(app, "--join-timeout", values.join_timeout,
               "A rank that has not joined this long after its start hangs (default: 60s)");
  app.add_option(
         "--nodes", values.nodes,
         "Nodes to train on, N or MIN:MAX; with MIN:MAX the world shrinks when nodes are lost")
      ->type_name("N|MIN:MAX");
  app.add_option("--spares", values.spares, "Nodes held back to replace lost ones")
      ->check(whole_check(0, 1 << 16))
      ->type_name("N");
}

}  // namespace

void describe_devices(VerbApp& app, RunArgs& values) {
  const char* const group = "Devices";
  app.add_option("--device", values.device,
                 "Where ranks compute: on a GPU each, on the CPU, or on GPUs where there are some "
                 "and this build can use them")
      ->check(choice_check({"auto", "cpu", "cuda"}))
      ->capture_default_str()
      ->group(group);
  app.add_flag("--share-gpus", values.share_gpus, "Let several ranks have one GPU")->group(group);
}

namespace {

// Words, or the name of a checkpoint, perhaps behind a path.
ValueCheck resume_check() {
  const std::vector<std::string> words{"auto", "required", "never"};
  const auto check = [words](const std::string& value) {
    if (std::ranges::find(words, value) != words.end() || checkpoint_named(value))
      return std::string();
    std::vector<std::string> known = words;
    known.emplace_back("global_step<N>");
    return unknown_choice(value, known);
  };
  return ValueCheck(check, fmt::format("{{{}}}", fmt::join(words, ",")));
}

}  // namespace

std::optional<std::string> checkpoint_named(std::string_view value) {
  constexpr std::string_view kStart = "global_step";
  while (value.ends_with('/')) value.remove_suffix(1);
  const std::string_view name = value.substr(value.rfind('/') + 1);
  const bool is_name =
      name.starts_with(kStart) && name.size() > kStart.size() &&
      name.find_first_not_of("0123456789", kStart.size()) == std::string_view::npos;
  return is_name ? std::optional<std::string>(name) : std::nullopt;
}

void describe_run(VerbApp& app, RunArgs& values) {
  app.add_option("config", values.config, "train.json: the DeepSpeed keys, model, data, train")
      ->type_name("FILE")
      ->required();
  add_overrides(app, values.overrides);
  app.add_option("--num-ranks", values.num_ranks, "Ranks (default: the GPUs, else one per 2 cores)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--num-threads", values.num_threads,
                 "CPU threads per rank (default: cores / ranks)")
      ->check(count_check())
      ->type_name("N");
  app.add_option("--resume", values.resume,
                 "From the newest checkpoint: if there is one, necessarily, or not (default: the "
                 "config's); "
                 "or from this one of the run, by its name or path: global_step6")
      ->check(resume_check());
  app.add_flag("--accept-changes", values.accept_changes, kAcceptChanges);
  app.add_option("--run-dir", values.run_dir,
                 "Where everything goes (default: runs/<config>-<time>)")
      ->type_name("DIR");
  describe_lifetime(app, values);
  describe_hosts(app, values.hosts);
  describe_devices(app, values);
  describe_binding(app, values);
  app.add_flag("--audit-samples", values.audit_samples,
               "Log the samples of every rank and step: logs/samples-rank-<r>.jsonl");
  app.add_option("--metrics-listen", values.metrics.listen,
                 "Serve /metrics for Prometheus over HTTP, to everybody who reaches that address")
      ->type_name("ADDRESS:PORT");
  app.add_option("--metrics-textfile", values.metrics.textfile,
                 "Keep a Prometheus text file up to date, for node_exporter's textfile collector")
      ->type_name("FILE");
  app.add_flag("--dry-run", values.dry_run, "Check, print what would be started, start nothing");
  app.add_flag("--json", values.json,
               "Print report.json on standard output at the end; with --dry-run, plan.json");
  app.footer(kFooter);
  app.final_callback([&values] { check_overrides(values.overrides); });
}

}  // namespace ds
