// What training says while it runs, to whoever wants to hear it. In a rank that is the control
// connection (rankd/control/control_client.h); nothing here knows one.
#pragma once

#include <string_view>
#include <vector>

#include "train/settings/job.h"

namespace ds {

class RunReports {
 public:
  virtual ~RunReports() = default;

  // Call at every micro-step and phase change: a rank that does not progress counts as hung.
  virtual void report_progress(const Progress& progress) = 0;

  virtual void report_step(const StepMetrics& metrics) = 0;  // rank 0
  // Those that the launcher has not taken yet, oldest first: lost with this process, unless
  // somebody says them again.
  virtual std::vector<StepMetrics> untaken_steps() const = 0;
  virtual void report_commit(const SavedTag& tag) = 0;  // rank 0, after the manifest is durable
  virtual void report_text(std::string_view line) = 0;  // rank 0: a line for the user
};

}  // namespace ds
