#include "launcher/verbs/insight/lr_range_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cli/terminal_text.h"
#include "config/load.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/environment_list.h"
#include "launcher/process/run_directory.h"
#include "launcher/run/job_config.h"
#include "launcher/show/lr_range.h"
#include "launcher/verbs/found_run.h"

namespace ds {
namespace {

namespace fs = std::filesystem;

LrRangeTestParams params_of(const LrRangeTestArgs& args, const Config& config) {
  LrRangeTestParams params;
  if (config.scheduler.type == SchedulerType::kLRRangeTest) {
    params = config.scheduler.lr_range_test;
  } else {
    params = {.lr_range_test_min_lr = {1e-4},
              .lr_range_test_step_size = std::max<int64_t>(1, args.steps / 10),
              .lr_range_test_step_rate = 10};
  }
  if (args.min_lr) params.lr_range_test_min_lr = {*args.min_lr};
  params.lr_range_test_step_size = args.step_size.value_or(params.lr_range_test_step_size);
  params.lr_range_test_step_rate = args.step_rate.value_or(params.lr_range_test_step_rate);
  params.lr_range_test_staircase |= args.staircase;
  return params;
}

// What makes a range test of the run that a configuration describes: words behind it.
std::vector<std::string> lr_range_overrides(const LrRangeTestArgs& args) {
  std::vector<std::string> out = args.run.overrides;
  const Config config = load_config(args.run.config, out);
  const LrRangeTestParams params = params_of(args, config);
  std::string rates;
  for (const double rate : params.lr_range_test_min_lr) {
    rates += fmt::format("{}{}", rates.empty() ? "" : ", ", rate);
  }
  out.push_back(fmt::format(
      "scheduler={{\"type\": \"LRRangeTest\", \"params\": {{\"lr_range_test_min_lr\": [{}], "
      "\"lr_range_test_step_size\": {}, \"lr_range_test_step_rate\": {}, "
      "\"lr_range_test_staircase\": {}}}}}",
      rates, params.lr_range_test_step_size, params.lr_range_test_step_rate,
      params.lr_range_test_staircase));
  for (const char* const word : {"train.epochs=null", "train.save_every=0",
                                 "train.save_at_end=false", "train.log_every=1"}) {
    out.emplace_back(word);
  }
  if (!config.data.validation.empty() || config.data.validation_fraction > 0) {
    out.emplace_back("train.eval_every=0");
    out.emplace_back("train.eval_batches=1");
  }
  out.push_back(fmt::format("train.steps={}", args.steps));
  return out;
}

fs::path run_directory_of(const LrRangeTestArgs& args) {
  if (args.run.run_dir) return fs::absolute(*args.run.run_dir);
  return fs::current_path() / "runs" /
         fmt::format("{}-lr-{}", config_stem(args.run.config), local_time_stamp());
}

// The step that ended the run has no line of its own.
void add_lost_step(MetricCurves& curves) {
  std::vector<PlotPoint>& losses = curves["loss"];
  const double last = losses.empty() ? 0 : losses.back().x;
  losses.push_back({last + 1, std::numeric_limits<double>::quiet_NaN()});
}

int report(const LrRangeTestArgs& args, const fs::path& run, const MetricCurves& curves) {
  const LrRange range = lr_range_of(curves);
  const fs::path plot = run / "lr-range-test.svg";
  write_whole_file(plot, lr_range_plot(range));
  if (args.json) {
    say("{}\n", lr_range_json(range, run.string(), plot.string()));
  } else {
    say("{}plot            {}\n", lr_range_text(range), plot.string());
  }
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace

int run_lr_range_test(const LrRangeTestArgs& args, const CommandContext& context) {
  RunArgs run = args.run;
  const fs::path directory = run_directory_of(args);
  run.overrides = lr_range_overrides(args);
  run.run_dir = directory.string();
  run.resume = "never";
  RunOptions options = run_options(run);
  options.for_another_verb = true;
  options.json = args.json;
  const int code = run_training_job(options, context);
  const std::optional<StartedPlace> place = discover_start(as_environment(context.environment));
  if (place && !place->is_launcher()) return code;  // another dslaunch has the results
  const bool is_lost = code != static_cast<int>(ExitCode::kDone);
  const std::string report_text = run_file(directory, "report.json");
  // What the test looks for is a loss or gradient that is not finite.
  if (is_lost && !report_has(report_text, "first_bad_number")) {
    // What failed before there was a report is said already.
    if (args.json && !report_text.empty()) say("{}", report_text);
    return code;
  }
  MetricCurves curves = run_curves(directory);
  if (is_lost) add_lost_step(curves);
  return report(args, directory, curves);
}

}  // namespace ds
