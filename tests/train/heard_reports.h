// What training says, kept as lines in the order in which it came.
#pragma once

#include <string>
#include <vector>

#include "core/status/error.h"
#include "train/settings/run_reports.h"

namespace ds::testing {

class HeardReports final : public RunReports {
 public:
  void report_progress(const Progress& at) override {
    lines.push_back(fmt::format("{} {}.{}", at.phase, at.step, at.micro_step));
  }
  void report_step(const StepMetrics& metrics) override { steps.push_back(metrics); }
  std::vector<StepMetrics> untaken_steps() const override { return steps; }
  void report_commit(const SavedTag& tag) override { lines.push_back("commit " + tag.tag); }
  void report_text(std::string_view line) override { lines.emplace_back(line); }

  // Everything since the last call.
  std::vector<std::string> take() { return std::exchange(lines, {}); }

  std::vector<std::string> lines;
  std::vector<StepMetrics> steps;
};

}  // namespace ds::testing
