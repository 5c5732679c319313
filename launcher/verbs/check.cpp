#include "launcher/verbs/check.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "cli/terminal_text.h"
#include "config/available.h"
#include "config/elastic_options.h"
#include "config/load.h"
#include "config/origins.h"
#include "config/sections/near_ranks.h"
#include "core/error.h"
#include "core/index.h"
#include "launcher/decide/json_text.h"
#include "launcher/process/run_directory.h"
#include "launcher/verbs/input_look.h"

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
    return problem.severity == Severity::kError && problem.path == path;
  });
}

// Where the first of the batch sizes that are given stands.
Origin batch_origin(const Origins& origins) {
  for (const std::string_view path : kBatchKeys) {
    if (const auto given = origins.find(path); given != origins.end()) return given->second;
  }
  return {};
}

void check_batch(const ReadConfig& read, std::optional<int64_t> num_ranks, Problems& problems) {
  const Config& config = read.config;
  const bool refused = std::ranges::any_of(
      kBatchKeys, [&](std::string_view path) { return is_refused(problems.all(), path); });
  if (!num_ranks || refused) return;  // a size that could not be read is missing here
  try {
    const int64_t ranks = data_ranks(config, *num_ranks);
    const BatchSizes sizes = batch_sizes(config, ranks);
    const std::string why =
        micro_batch_conflict(pipeline_split(config.pipeline), sizes.accumulation);
    if (!why.empty() && !config.gradient_accumulation_steps) {  // else a rule has said it
      problems.error(Basis::kOwn, "pipeline.schedule", batch_origin(read.origins), why);
    }
  } catch (const Error& error) {
    problems.error(Basis::kDeepSpeed, "", batch_origin(read.origins), error.what());
  }
}

void check_neighbours(const ReadConfig& read, std::optional<int64_t> num_ranks,
                      Problems& problems) {
  const std::optional<NearRanks> near = near_ranks(read.config.zero_optimization);
  if (!num_ranks || !near || is_refused(problems.all(), near->key)) return;
  try {
    check_near(*near, *num_ranks / model_ranks(read.config));
  } catch (const ConfigError& error) {
    problems.error(Basis::kOwn, "", origin_near(read.origins, near->key), error.what());
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
};

Checked check_and_keep(const CheckOptions& options) {
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
  check_batch(read, options.num_ranks, read.problems);
  check_neighbours(read, options.num_ranks, read.problems);
  Problems incomplete;
  check_complete(read.config, incomplete);
  for (Problem problem : incomplete.all()) {
    if (is_refused(read.problems.all(), problem.path)) continue;  // it is given, and wrong
    problem.severity = Severity::kNote;  // a DeepSpeed file alone is a valid file
    read.problems.add(std::move(problem));
  }
  out.report.problems = read.problems.all();
  out.report.left_out = read.problems.left_out();
  sort_by_position(out.report.problems);
  return out;
}

bool names_inputs(const Config& config) {
  return config.model.folder || config.model.family || !config.data.train.empty() ||
         !config.data.validation.empty();
}

void look_at_files(const CheckOptions& options, const CommandContext& context, Checked& checked) {
  std::vector<Problem>& problems = checked.report.problems;
  const InputLook look = look_at_inputs(options.config, options.overrides, context);
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

// Where runs are kept, unless --run-dir says otherwise.
void look_at_runs(const CheckOptions& options, Checked& checked) {
  namespace fs = std::filesystem;
  const auto add = [&](Severity severity, const char* path, std::string message) {
    checked.report.problems.push_back({.severity = severity,
                                       .basis = Basis::kOwn,
                                       .path = path,
                                       .origin = origin_near(checked.read.origins, path),
                                       .message = std::move(message)});
  };
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
  Checked checked = check_and_keep(options);
  if (names_inputs(checked.read.config)) {
    look_at_files(options, context, checked);
    look_at_runs(options, checked);
    sort_by_position(checked.report.problems);
  }
  say("{}", options.json ? check_json(checked.report) : check_text(checked.report));
  return count_of(checked.report, Severity::kError) == 0 ? 0 : static_cast<int>(ExitCode::kConfig);
}

}  // namespace ds
