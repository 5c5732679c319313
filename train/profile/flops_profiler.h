// flops_profiler: one step is looked at, on rank 0: what its first forward pass costs and takes,
// module by module, and what the step takes around it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "config/sections/monitor.h"
#include "train/engine.h"
#include "train/measure/op_log.h"
#include "train/measure/step_timer.h"
#include "train/profile/report.h"
#include "train/settings/run_reports.h"

namespace ds {

class FlopsProfiler final : public StepObserver {
 public:
  using Tell = std::function<void(const ProfileFigures& figures, const ModuleProfile& model)>;
  // `timer`: before this one in the list; `ops`: of the engine's stream; `tell`: called once.
  FlopsProfiler(Engine& engine, StepTimer& timer, OpLog& ops, const FlopsProfilerConfig& config,
                Tell tell);

  void before_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_instruction(int64_t steps_done, const PipelineInstruction& instruction) override;
  void after_step(const StepReport& report) override;

 private:
  bool is_looked_at(int64_t steps_done, const PipelineInstruction& instruction) const;
  std::vector<ProfiledOp> timed_ops() const;
  ModuleProfile profile() const;
  ProfileFigures figures() const;
  Engine& engine_;
  StepTimer& timer_;
  OpLog& ops_;
  const FlopsProfilerConfig config_;
  const Tell tell_;
  std::vector<LoggedOp> forward_;
  StreamMoment end_;  // of the forward pass
};

// The report as `config` wants it, to the user or into a file, and as JSON into the run directory.
void report_profile(RunReports& reports, const FlopsProfilerConfig& config,
                    const std::string& run_dir, const ProfileFigures& figures,
                    const ModuleProfile& model);

}  // namespace ds
