#include "launcher/verbs/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/text/terminal_text.h"
#include "config/available.h"
#include "config/load.h"
#include "config/origins.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "launcher/agents/host_survey.h"
#include "launcher/decide/data_plane.h"
#include "launcher/decide/text/amounts.h"
#include "launcher/decide/text/json_text.h"
#include "launcher/process/devices/gpus.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/process/machine.h"
#include "launcher/run/job_config.h"
#include "launcher/run/job_devices.h"
#include "launcher/verbs/engine_verb.h"
#include "launcher/verbs/input_look.h"
#include "proto/build_info.h"

namespace ds {

namespace {

// What was found, in the order of the file.
struct CheckReport {
  std::string config;  // its name, for people
  std::vector<Problem> problems;
  size_t left_out = 0;  // problems beyond those
};

constexpr std::array<std::string_view, 3> kBatchKeys = {
    "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"};

bool is_refused(const std::vector<Problem>& problems, std::string_view path) {
  return std::ranges::any_of(problems, [&](const Problem& problem) {
    return problem.severity == Severity::kError && !path.empty() && problem.path == path;
  });
}

// Returns where the first of the batch sizes that are given stands.
Origin batch_origin(const Origins& origins) {
  for (const std::string_view path : kBatchKeys) {
    if (const auto given = origins.find(path); given != origins.end()) return given->second;
  }
  return {};
}

JobDevices devices_here(const CommandContext& context) {
  return JobDevices({}, build_devices(), own_gpus(context.visible_gpus), {});
}

int local_gpus(const CommandContext& context) { return devices_here(context).local_gpus(); }

// Whether ranks may talk to each other in the way that is asked for depends on the machine and on
// who starts them.
void check_backend(const ReadConfig& read, int ranks, const CommandContext& context,
                   Problems& problems) {
  const std::string key = "communication.backend";
  const CommunicationBackend asked = read.config.communication.backend;
  if (is_refused(problems.all(), key)) return;
  try {
    require_device_of(asked, devices_here(context).local_device());
    choose_data_plane({.asked = asked, .ranks = ranks, .built_with_mpi = build_info().has_mpi});
  } catch (const Error& error) {
    problems.note(
        key, origin_near(read.origins, key),
        fmt::format("a run that is started here is refused: {}", split_key(error.what()).what));
  }
}

bool has_batch(const Config& config) {
  return config.train_batch_size || config.train_micro_batch_size_per_gpu ||
         config.elasticity.enabled;
}

// As many ranks as a run on this machine alone would have.
int ranks_here(const BatchRequest& batch, const CommandContext& context) {
  JobConfig config;
  config.batch = batch;
  Machine machine = this_machine(context.visible_gpus);
  machine.gpus = local_gpus(context);
  return local_shape(config, machine, {}, {}).ranks;
}

// The ranks of the run that is looked at: those that were asked for, or those of this machine. A
// file may be meant for another one: where they do not fit, it is a note, and the fewest that fit.
int ranks_to_look_at(const BatchRequest& batch, std::optional<int64_t> num_ranks,
                     const CommandContext& context, Problems& problems) {
  if (num_ranks) {
    const int ranks = narrow<int>(*num_ranks);
    check_batch_sizes(batch, ranks);
    return ranks;
  }
  const int here = ranks_here(batch, context);
  if (same_batch(batch, here, here)) return here;
  const int fewest = smallest_world(batch);
  try {
    check_batch_sizes(batch, here);
  } catch (const ConfigError& error) {
    problems.note("", {},
                  fmt::format("a run on this machine alone has {}, unless --num-ranks says "
                              "how many, and is refused: {}",
                              format_count(here, "rank"), error.what()));
  }
  return fewest;
}

// Nothing where the batch sizes fit no number of ranks, or cannot be told.
std::optional<int> check_world(const ReadConfig& read, std::optional<int64_t> num_ranks,
                               const CommandContext& context, Problems& problems) {
  const bool refused = std::ranges::any_of(
      kBatchKeys, [&](std::string_view path) { return is_refused(problems.all(), path); });
  if (refused || !has_batch(read.config)) return std::nullopt;  // that is said elsewhere
  try {
    return ranks_to_look_at(batch_request(read.config), num_ranks, context, problems);
  } catch (const ConfigError& error) {
    KeyMessage said = split_key(error.what());
    if (!said.key.empty() && is_refused(problems.all(), said.key)) return std::nullopt;
    const Origin origin =
        said.key.empty() ? batch_origin(read.origins) : origin_near(read.origins, said.key);
    problems.error(Basis::kOwn, std::move(said.key), origin, std::move(said.what));
    return std::nullopt;
  }
}

// In the order of the file: what has no position comes last.
void sort_by_position(std::vector<Problem>& problems) {
  std::stable_sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    const auto key = [](const Problem& p) {
      return std::tuple(p.origin.line == 0, p.origin.line, p.origin.column);
    };
    return key(a) < key(b);
  });
}

std::string counted(size_t count, std::string_view what) {
  if (count == 0) return fmt::format("no {}s", what);
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

size_t count_of(const CheckReport& report, Severity severity) {
  return to_size(std::ranges::count(report.problems, severity, &Problem::severity));
}

std::string json_list(const CheckReport& report, Severity severity) {
  std::string out;
  for (const Problem& problem : report.problems) {
    if (problem.severity != severity) continue;
    const bool placed = problem.origin.source != nullptr;
    JsonObject item;
    item.text("path", problem.path);
    item.raw("file", placed ? json_string(*problem.origin.source) : "null");
    item.raw("line", placed ? std::to_string(problem.origin.line) : "null");
    item.raw("column", placed ? std::to_string(problem.origin.column) : "null");
    item.text("message", problem.message);
    out += (out.empty() ? "" : ", ") + item.str();
  }
  return "[" + out + "]";
}

// The configuration as it was read, for what is looked at beyond it.
struct Checked {
  CheckReport report;
  ReadConfig read;
  std::optional<int> world;  // that a run could have
};

Checked check_and_keep(const CheckOptions& options, const CommandContext& context) {
  // A long base64 text is no name to print.
  constexpr size_t kLongestName = 200;
  Checked out;
  out.report.config = options.config.size() > kLongestName ? "config" : options.config;
  try {
    out.read = read_config(options.config, options.overrides);
  } catch (const ConfigError& error) {
    out.report.problems.push_back(
        {.severity = Severity::kError, .path = "", .origin = {}, .message = error.what()});
    return out;
  }
  ReadConfig& read = out.read;
  check_available(read.config, read.origins, read.problems);
  out.world = check_world(read, options.num_ranks, context, read.problems);
  if (out.world) check_backend(read, *out.world, context, read.problems);
  // A DeepSpeed file alone is a valid file.
  check_complete(read, describes_run(read) ? Severity::kError : Severity::kNote);
  out.report.problems = read.problems.all();
  out.report.left_out = read.problems.left_out();
  sort_by_position(out.report.problems);
  return out;
}

bool names_inputs(const Config& config) {
  return config.model.folder || config.model.family || !config.data.train.empty() ||
         !config.data.validation.empty();
}

void add_look(const InputLook& look, Checked& checked) {
  std::vector<Problem>& problems = checked.report.problems;
  if (look.not_done) {
    problems.push_back(
        {.severity = Severity::kNote, .path = "", .origin = {}, .message = *look.not_done});
  }
  const std::vector<Problem> before = problems;
  for (const WrongInput& wrong : look.wrong) {
    if (is_refused(before, wrong.key)) continue;  // the report says so already
    problems.push_back({.severity = Severity::kError,
                        .basis = Basis::kOwn,
                        .path = wrong.key,
                        .origin = origin_near(checked.read.origins, wrong.key),
                        .message = wrong.what});
  }
  for (const NotedInput& noted : look.noted) {
    problems.push_back({.severity = Severity::kNote,
                        .path = noted.key,
                        .origin = origin_near(checked.read.origins, noted.key),
                        .message = noted.what});
  }
}

// What is wrong with a folder that weights or state are swapped to. Where there is none, it may yet
// be on the hosts of the run: such disks are each machine's own, and check runs on others, too.
Problem swap_problem(const SwapFolderDefect& found, const std::string& path) {
  std::error_code unseen;
  if (std::filesystem::exists(path, unseen)) {
    return {.basis = Basis::kOwn,
            .path = {},
            .origin = {},
            .message = fmt::format("{}; {}", found.what, found.fix)};
  }
  return {.severity = Severity::kNote,
          .path = {},
          .origin = {},
          .message = fmt::format(
              "{} is not on this machine; hosts that train need it, and `dslaunch preflight` "
              "looks at them",
              path)};
}

// Checks the folders on this machine that weights and state are swapped to.
void look_at_swap_paths(const CommandContext& context, Checked& checked) {
  const std::vector<SwapPath> swaps = swap_paths(checked.read.config.zero_optimization);
  if (swaps.empty()) return;
  SurveyOrders orders;
  for (const SwapPath& swap : swaps) orders.nvme_paths.push_back(swap.path);
  const SurveyedHost here = survey_this_machine({}, own_gpus(context.visible_gpus), orders);
  for (size_t i = 0; i < swaps.size(); ++i) {
    const agent::PathFacts& folder = here.facts->nvme(narrow<int>(i));
    const auto found = swap_folder_defect(folder);
    if (!found || is_refused(checked.report.problems, swaps[i].key)) continue;
    Problem problem = swap_problem(*found, folder.path());
    problem.path = swaps[i].key;
    problem.origin = origin_near(checked.read.origins, swaps[i].key);
    checked.report.problems.push_back(std::move(problem));
  }
}

// The run is planned only where nothing else is wrong.
PlannedRun planned_run(const CheckOptions& options, const CommandContext& context,
                       const Checked& checked) {
  if (!checked.world || count_of(checked.report, Severity::kError) > 0) return {};
  const bool exact = options.num_ranks && local_gpus(context) == 0;  // a GPU's plan is another
  return {.ranks = *checked.world, .has_limits = exact};
}

// Checks the folder that runs are kept in unless --run-dir says otherwise.
void look_at_runs(const CheckOptions& options, Checked& checked) {
  namespace fs = std::filesystem;
  const auto add = [&](Severity severity, const char* path, std::string message) {
    checked.report.problems.push_back({.severity = severity,
                                       .basis = Basis::kOwn,
                                       .path = path,
                                       .origin = origin_near(checked.read.origins, path),
                                       .message = std::move(message)});
  };
  try {
    job_directory(options.config);
  } catch (const ConfigError& refused) {
    add(Severity::kError, "", refused.what());
  }
  std::error_code error;
  const fs::path here = fs::current_path();
  const fs::path runs = here / "runs";
  const bool there = fs::exists(runs, error);
  if (there && !fs::is_directory(runs, error)) {
    add(Severity::kError, "",
        fmt::format("{}: runs are kept in a folder of this name, and this is none; move it, or "
                    "train with --run-dir",
                    runs.string()));
  } else if (access((there ? runs : here).c_str(), W_OK) != 0) {
    add(Severity::kError, "",
        fmt::format("{}: runs are kept in it, and it cannot be written; train elsewhere, or with "
                    "--run-dir",
                    (there ? runs : here).string()));
  }
  const std::string stem = fs::path(options.config).stem().string();
  if (checked.read.config.train.resume == ResumeMode::kRequired &&
      !newest_resumable_run(here, stem)) {
    add(Severity::kNote, "train.resume",
        fmt::format(
            "\"required\", but {} has no run of {} with a checkpoint; --run-dir names another",
            runs.string(), stem));
  }
}

// Models are what the engine knows of.
EngineVerb verb_of_folder(const CheckOptions& options) {
  EngineVerb verb{{"check", options.config}};
  verb.arguments.insert(verb.arguments.end(), options.overrides.begin(), options.overrides.end());
  if (options.num_ranks)
    verb.arguments.push_back(fmt::format("--num-ranks={}", *options.num_ranks));
  if (options.json) verb.arguments.emplace_back("--json");
  return verb;
}

std::string check_text(const CheckReport& report) {
  std::string text;
  for (const Problem& problem : report.problems) {
    text += fmt::format("{}: {}\n", problem.severity == Severity::kError ? "error" : "note",
                        problem.text());
  }
  if (report.left_out > 0) text += fmt::format("... and {} more\n", report.left_out);
  return text + fmt::format("{}: {}, {}\n", report.config,
                            counted(count_of(report, Severity::kError), "error"),
                            counted(count_of(report, Severity::kNote), "note"));
}

std::string check_json(const CheckReport& report) {
  JsonObject out;
  out.raw("ok", count_of(report, Severity::kError) == 0 ? "true" : "false");
  out.text("config", report.config);
  out.raw("problems", json_list(report, Severity::kError));
  out.raw("notes", json_list(report, Severity::kNote));
  out.integer("left_out", static_cast<int64_t>(report.left_out));
  return out.str() + "\n";
}

}  // namespace

int run_check(const CheckOptions& options, const CommandContext& context) {
  if (std::error_code unseen; std::filesystem::is_directory(options.config, unseen)) {
    become_engine(verb_of_folder(options), context);
  }
  Checked checked = check_and_keep(options, context);
  if (names_inputs(checked.read.config)) {
    look_at_swap_paths(context, checked);
    look_at_runs(options, checked);
    add_look(look_at_inputs(options.config, options.overrides,
                            planned_run(options, context, checked), context),
             checked);
    sort_by_position(checked.report.problems);
  }
  say("{}", options.json ? check_json(checked.report) : check_text(checked.report));
  return count_of(checked.report, Severity::kError) == 0 ? 0 : static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
