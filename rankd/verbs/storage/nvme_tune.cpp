#include "rankd/verbs/storage/nvme_tune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "cli/text/terminal_text.h"
#include "core/files/file.h"
#include "core/status/error.h"
#include "offload/tuning/speed_run.h"
#include "rankd/verbs/storage/io_device.h"
#include "rankd/verbs/storage/tune_files.h"
#include "rankd/verbs/terminal/input_texts.h"
#include "rankd/verbs/terminal/live_line.h"

namespace ds {
namespace {

constexpr size_t kRowsShown = 10;
constexpr int64_t kLongestSweep = 1 << 20;  // bytes of a sweep file

// One line that is rewritten on a terminal, a line for each trial elsewhere.
class TrialProgress {
 public:
  explicit TrialProgress(size_t budget) : budget_(budget) {}

  void begin(size_t number, const IoSetting& setting) const {
    line_.show(fmt::format("trial {}/{}  {}", number, budget_, to_text(setting)));
  }
  void end(size_t number, const IoTrial& trial) const {
    if (line_.is_live()) return;
    line_.say_between(
        fmt::format("trial {}/{}  {}  {}", number, budget_, speeds(trial), to_text(trial.setting)));
  }
  // Between the others.
  void line(std::string_view text) const { line_.say_between(text); }

  static std::string speeds(const IoTrial& trial) {
    std::vector<std::string> words;
    if (trial.read) words.push_back(fmt::format("read = {:.2f}", *trial.read / 1e9));
    if (trial.write) words.push_back(fmt::format("write = {:.2f}", *trial.write / 1e9));
    return fmt::format("{}", fmt::join(words, ", "));
  }

 private:
  const size_t budget_;
  LiveLine line_;
};

// Minutes later it would be too late to hear of it.
void require_log_folder(const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code unseen;
  fs::path there = fs::absolute(folder, unseen);
  while (!fs::exists(there, unseen) && there.has_relative_path()) there = there.parent_path();
  if (!fs::is_directory(there, unseen) || access(there.c_str(), W_OK) != 0)
    throw IoError(fmt::format("--log-dir {}: {} is no folder that can be written to", folder,
                              there.string()));
}

std::string loops_text(std::string_view what, const SpeedTimes& times) {
  return fmt::format("  {} loops, s: {:.6f}", what, fmt::join(times.task, " "));
}

IoTrial measure(SpeedRun& run, const IoSetting& setting, const NvmeTuneArgs& args,
                TrialProgress& progress) {
  IoTrial trial{setting, std::nullopt, std::nullopt};
  const auto speed = [&](std::string_view what, const SpeedTimes& times) {
    if (args.verbose) progress.line(loops_text(what, times));
    return speed_of(run.bytes_per_loop(), times.task);
  };
  if (!args.no_write) trial.write = speed("write", run.write(setting));
  if (!args.no_read) trial.read = speed("read", run.read(setting));
  return trial;
}

std::vector<IoTrial> search(SpeedRun& run, const SweepSpace& space, size_t budget,
                            const NvmeTuneArgs& args) {
  TrialProgress progress(budget);
  std::vector<IoTrial> trials;
  std::vector<IoTrialScore> scores;
  while (const auto setting = next_setting(space, scores, budget)) {
    progress.begin(trials.size() + 1, *setting);
    trials.push_back(measure(run, *setting, args, progress));
    scores.push_back({*setting, trials.back().score()});
    progress.end(trials.size(), trials.back());
  }
  return trials;
}

void write_logs(const NvmeTuneArgs& args, const std::vector<IoTrial>& trials) {
  if (args.log_dir.empty()) return;
  RealFileSystem files;
  files.make_directories(args.log_dir);
  files.write_text_atomically(join_path(args.log_dir, "results.json"),
                              to_json(trials_json(trials, args.gds)));
  files.write_text_atomically(
      join_path(args.log_dir, "speeds.svg"),
      trials_plot(trials, fmt::format("GB/s of {}", fmt::join(args.folders, ", "))));
}

}  // namespace

int run_nvme_tune(const NvmeTuneArgs& args) {
  SweepSpace space;
  if (!args.sweep_config.empty()) {
    space =
        read_sweep(RealFileSystem().read_text(args.sweep_config, kLongestSweep), args.sweep_config);
  }
  if (args.io_size % 4096 != 0)
    throw UsageError(fmt::format("--io-size {}: expected a multiple of 4096", args.io_size));
  if (args.flush_page_cache && args.no_read)
    throw UsageError("--flush-page-cache has an effect only on reading");
  if (!args.log_dir.empty()) require_log_folder(args.log_dir);
  SpeedPlan plan{.folders = args.folders,
                 .io_bytes = args.io_size,
                 .loops = args.loops,
                 .flush_page_cache = args.flush_page_cache};
  if (args.gds) {
    plan.engine = EngineKind::kGds;
    make_engine(EngineKind::kGds, {});  // says what is missing before anything is made
  }
  std::optional<IoDevice> device;
  if (args.gpu || args.gds) {
    const auto tensors = static_cast<int64_t>(args.folders.size());
    plan.stream = &device.emplace(0, args.io_size * tensors).stream();
  }
  const size_t budget = args.exhaustive ? settings_in(space) : trials_allowed(space);
  say(stderr, "Tuning on {}: {} settings, {} trials\n", fmt::join(args.folders, ", "),
      settings_in(space), budget);
  SpeedRun run(plan);
  const std::vector<IoTrial> trials = search(run, space, budget, args);
  for (const std::string& text : run.notes()) say(stderr, "note: {}\n", text);
  write_logs(args, trials);
  if (args.json) {
    print_now(to_json(trials_json(trials, args.gds)));
    return 0;
  }
  const IoTrial& best = best_of(trials);
  print_now(trials_table(trials, args.verbose ? trials.size() : kRowsShown) +
            fmt::format("Best performance (GB/s): {}\n", TrialProgress::speeds(best)) +
            to_json(aio_section(best.setting, args.gds)));
  return 0;
}

}  // namespace ds
