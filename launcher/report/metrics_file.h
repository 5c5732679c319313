// metrics.jsonl and metrics.csv: one line per step, as soon as the disk takes it. A run that
// resumes at step k, in a new launch or a new epoch, continues the files behind step k-1: they are
// replaced by their own beginning in one rename, so that no step ever stands there twice.
#pragma once

#include <deque>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/values/step_metrics.h"
#include "launcher/process/files/run_directory.h"

namespace ds {

// A launch that goes on, or a verb, reads no more of what an earlier one wrote: ten million steps.
inline constexpr size_t kMostMetricsBytes = size_t{4} << 30;

class MetricsFile {
 public:
  explicit MetricsFile(const RunDirectory& directory) : directory_(directory) {}

  // A step that is not beyond the last one replaces it and what came after.
  void add(const StepMetrics& metrics) { waiting_.push_back(metrics); }
  // Writes what was added. Throws IoError; nothing is lost or doubled when it is called again.
  void flush();

  struct Point {
    int64_t step = 0;
    double loss = 0;
    std::optional<double> validation_loss = std::nullopt;  // where the step was evaluated
    std::optional<double> generation = std::nullopt;       // of the world that made it
  };
  const std::vector<Point>& points() const { return points_; }  // that were written

 private:
  void open_at(int64_t first_step);
  void flush_files();

  const RunDirectory directory_;
  std::deque<StepMetrics> waiting_;
  std::optional<AppendFile> jsonl_;
  std::optional<AppendFile> csv_;
  std::vector<Point> points_;
};

std::string metrics_json(const StepMetrics& metrics);
std::string metrics_csv_header();
std::string metrics_csv(const StepMetrics& metrics);

// The step of one of our own lines; nothing if it is not one (a line torn by a crash).
std::optional<int64_t> step_of_json_line(std::string_view line);

// The last whole line of the metrics.jsonl of a run directory; nothing where there is none.
std::optional<std::string> last_metrics_line(const std::filesystem::path& run_directory);

}  // namespace ds
