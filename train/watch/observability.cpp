#include "train/watch/observability.h"

#include "train/eigenvalue/block_eigenvalues.h"
#include "train/monitor/monitors.h"
#include "train/profile/flops_profiler.h"
#include "train/watch/comms_logger.h"
#include "train/watch/state_dump.h"
#include "train/watch/step_breakdown.h"

namespace ds {
namespace {

class StateDump final : public StepObserver {
 public:
  explicit StateDump(const InsightParts& parts)
      : engine_(parts.engine), workspace_(parts.workspace), reports_(parts.reports) {}
  void after_load(const std::string& /*note*/) override {
    for (const std::string& line : state_lines(engine_, workspace_)) reports_.report_text(line);
  }

 private:
  Engine& engine_;
  const Workspace& workspace_;
  RunReports& reports_;
};

// Null where no monitor is switched on.
std::unique_ptr<Monitors> monitors_of(const InsightParts& parts, StepTimer& timer,
                                      const BlockEigenvalues* eigenvalues) {
  const Config& config = parts.config;
  auto sinks = monitor_sinks(config, {.run_dir = parts.plan.run_dir,
                                      .config_text = parts.plan.config_text,
                                      .version = parts.version});
  if (sinks.empty()) return nullptr;
  return std::make_unique<Monitors>(
      std::move(sinks), parts.reports, timer,
      Monitors::Options{.step = {.global_batch = parts.batch.global_batch(),
                                 .length = static_cast<double>(parts.engine.options().length),
                                 .scales_loss = config.fp16.enabled},
                        .eigenvalues = eigenvalues});
}

}  // namespace

StepTimer& add_insight(StepObservers& observers, const InsightParts& parts) {
  const Config& config = parts.config;
  HostExchange& host = parts.engine.host();
  StepTimer& timer = observers.add(std::make_unique<StepTimer>(parts.engine.stream(), parts.calls));
  const bool times = config.wall_clock_breakdown || config.flops_profiler.enabled;
  if (times || config.memory_breakdown) {
    observers.add(
        std::make_unique<StepBreakdown>(timer, host, parts.workspace, parts.reports,
                                        StepBreakdown::Options{.times = times,
                                                               .memory = config.memory_breakdown,
                                                               .every = printing_interval(config),
                                                               .last_step = parts.steps}));
  }
  if (config.comms_logger.enabled) {
    observers.add(std::make_unique<CommsLogger>(timer, host, parts.reports, config.comms_logger));
  }
  const BlockEigenvalues* eigenvalues = nullptr;
  if (config.eigenvalue.enabled) {
    eigenvalues = &observers.add(
        std::make_unique<BlockEigenvalues>(parts.engine, parts.batches, parts.reports));
  }
  if (parts.plan.rank != 0) return timer;
  if (config.flops_profiler.enabled) {
    observers.add(std::make_unique<FlopsProfiler>(
        parts.engine, timer, parts.ops, config.flops_profiler,
        [&reports = parts.reports, &run_dir = parts.plan.run_dir, of = config.flops_profiler](
            const ProfileFigures& figures, const ModuleProfile& model) {
          report_profile(reports, of, run_dir, figures, model);
        }));
  }
  if (config.dump_state) observers.add(std::make_unique<StateDump>(parts));
  if (auto monitors = monitors_of(parts, timer, eigenvalues)) observers.add(std::move(monitors));
  return timer;
}

}  // namespace ds
