#include "launcher/verbs/reports/lr_range_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cli/text/terminal_text.h"
#include "config/load.h"
#include "launcher/agents/started_place.h"
#include "launcher/process/files/environment_list.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/report/rates/lr_range.h"
#include "launcher/run/job_config.h"
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

bool has_held_out(const Config& config) {
  return !config.data.validation.empty() || config.data.validation_fraction > 0;
}

// Batches of held-out data that tell trials apart; the test itself evaluates as little as it can.
int64_t trial_eval_batches(const Config& config) {
  constexpr int64_t kEnough = 16;
  const int64_t asked = config.train.eval_batches;
  return asked == 0 ? kEnough : std::min(asked, kEnough);
}

// What makes a run of so many steps with the rates of the test out of the one that a configuration
// describes: words behind it.
std::vector<std::string> overrides_for(const LrRangeTestArgs& args, const Config& config,
                                       const LrRangeTestParams& params, int64_t steps,
                                       int64_t most_eval_batches) {
  std::vector<std::string> out = args.run.overrides;
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
  for (const char* const word :
       {"train.epochs=null", "train.save_every=0", "train.save_at_end=false", "train.log_every=1",
        "train.sample_prompt=null"}) {
    out.emplace_back(word);
  }
  if (has_held_out(config)) {
    out.emplace_back("train.eval_every=0");  // at the end
    out.push_back(fmt::format("train.eval_batches={}", most_eval_batches));
  }
  out.push_back(fmt::format("train.steps={}", steps));
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

// How a run ended whose loss is looked at: lost is one whose loss or gradients were not finite.
enum class RunEnd : uint8_t { kDone, kLost, kFailed };

struct MeasuredRun {
  RunEnd end = RunEnd::kDone;
  int code = 0;  // of the run
  MetricCurves curves;
};

MeasuredRun measure(const LrRangeTestArgs& args, const CommandContext& context,
                    std::vector<std::string> overrides, const fs::path& directory) {
  RunArgs run = args.run;
  run.overrides = std::move(overrides);
  run.run_dir = directory.string();
  run.resume = "never";
  RunOptions options = run_options(run);
  options.for_another_verb = true;
  options.json = args.json;
  MeasuredRun out;
  out.code = run_training_job(options, context);
  const bool is_lost = out.code != static_cast<int>(ExitCode::kDone);
  if (is_lost && !report_has(run_file(directory, "report.json"), "first_bad_number")) {
    out.end = RunEnd::kFailed;
    return out;
  }
  out.end = is_lost ? RunEnd::kLost : RunEnd::kDone;
  out.curves = run_curves(directory);
  return out;
}

// What is printed of a run that failed, whose exit code is ours; what failed before there was a
// report is said already.
int report_failure(const LrRangeTestArgs& args, const fs::path& directory, int code) {
  const std::string text = run_file(directory, "report.json");
  if (args.json && !text.empty()) say("{}", text);
  return code;
}

// The seed of a trial, which stays within what train.seed may be.
int64_t seed_of(const Config& config, const LrTrial& trial) {
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  const uint64_t seed =
      static_cast<uint64_t>(config.train.seed) + static_cast<uint64_t>(trial.seed);
  return static_cast<int64_t>(seed & kLargest);
}

// The run of one trial: at one rate, and with a seed of its own.
std::vector<std::string> trial_overrides(const LrRangeTestArgs& args, const Config& config,
                                         const LrTrial& trial) {
  const LrRangeTestParams constant{.lr_range_test_min_lr = {trial.lr},
                                   .lr_range_test_step_size = 1,
                                   .lr_range_test_step_rate = 0};
  std::vector<std::string> out =
      overrides_for(args, config, constant, args.trial_steps, trial_eval_batches(config));
  out.push_back(fmt::format("train.seed={}", seed_of(config, trial)));
  return out;
}

// Runs at one rate each until the best is known. The exit code of one that failed, or kDone.
int add_trials(LrRange& range, const LrRangeTestArgs& args, const Config& config,
               const CommandContext& context, const fs::path& directory) {
  range.trial_steps = args.trial_steps;
  range.trials_held_out = has_held_out(config);
  while (std::optional<LrTrial> trial = next_lr_trial(range.trials, range.curve_lr())) {
    const size_t number = range.trials.size() + 1;
    say(stderr, "trial {}: {} steps at a rate of {:.3g}{}\n", number, args.trial_steps, trial->lr,
        trial->seed > 0 ? fmt::format(" with train.seed={}", seed_of(config, *trial)) : "");
    const fs::path place = directory / "trials" / fmt::format("{}", number);
    const MeasuredRun run = measure(args, context, trial_overrides(args, config, *trial), place);
    if (run.end == RunEnd::kFailed) return report_failure(args, place, run.code);
    trial->loss = run.end == RunEnd::kDone
                      ? trial_loss(run.curves, args.trial_steps, range.trials_held_out)
                      : std::numeric_limits<double>::quiet_NaN();
    range.trials.push_back(*trial);
  }
  if (!best_lr(range.trials)) {
    throw DataError(
        fmt::format("learning-rate range test: the training was lost in all {} trials, at rates "
                    "from {:.3g} down to {:.3g}; expected is one that ends with a finite loss; "
                    "begin with a smaller --min-lr, or look at data and precision",
                    range.trials.size(), range.trials.front().lr, range.trials.back().lr));
  }
  return static_cast<int>(ExitCode::kDone);
}

void report(const LrRangeTestArgs& args, const fs::path& run, const LrRange& range) {
  const fs::path plot = run / "lr-range-test.svg";
  write_whole_file(plot, lr_range_plot(range));
  if (args.json) {
    say("{}\n", lr_range_json(range, run.string(), plot.string()));
  } else {
    say("{}plot            {}\n", lr_range_text(range), plot.string());
  }
}

}  // namespace

int run_lr_range_test(const LrRangeTestArgs& args, const CommandContext& context) {
  const fs::path directory = run_directory_of(args);
  const Config config = load_config(args.run.config, args.run.overrides);
  if (config.train.resume_from) {
    throw ConfigError(
        "train.resume_from: the range test begins at step 0, and not with a checkpoint; leave it "
        "out with train.resume_from=null, and give its weights as model.folder (dslaunch convert)");
  }
  MeasuredRun run =
      measure(args, context, overrides_for(args, config, params_of(args, config), args.steps, 1),
              directory);
  const std::optional<StartedPlace> place = discover_start(as_environment(context.environment));
  if (place && !place->is_launcher()) return run.code;  // another dslaunch has the results
  if (run.end == RunEnd::kFailed) return report_failure(args, directory, run.code);
  if (run.end == RunEnd::kLost) add_lost_step(run.curves);
  LrRange range = lr_range_of(run.curves);
  if (place && args.trial_steps > 0) {
    // Its starter makes one world, and each trial needs another.
    say(stderr, "note: no trials follow, as {} has started this; the curve alone tells the rate\n",
        place->starter);
  } else if (args.trial_steps > 0) {
    if (const int code = add_trials(range, args, config, context, directory); code != 0) {
      return code;
    }
  }
  report(args, directory, range);
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace ds
