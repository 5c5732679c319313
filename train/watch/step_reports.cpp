#include "train/watch/step_reports.h"

#include "train/watch/step_note.h"

namespace ds {

void ProgressReport::before_micro_step(int64_t steps_done, int micro_step) {
  reports_.report_progress({.step = steps_done, .micro_step = micro_step, .phase = "train"});
}

void MetricsReport::after_load(const std::string& note) {
  const std::vector<StepMetrics> steps = read_step_notes(note);
  // A launcher that knows of no step while the note begins later is not the one that missed them.
  const bool missed = options_.told_step > 0 || (!steps.empty() && steps.front().step == 1);
  for (const StepMetrics& metrics : steps) {
    if (missed && metrics.step > options_.told_step) reports_.report_step(metrics);
  }
}

void MetricsReport::after_step(const StepReport& report) {
  const auto tokens = static_cast<double>(options_.global_batch * options_.length);
  reports_.report_step({.step = report.step,
                        .total_steps = options_.total_steps,
                        .loss = report.loss,
                        .grad_norm = report.grad_norm,
                        .lr = report.lr,
                        .loss_scale = 1,
                        .tokens_per_s = tokens / report.seconds,
                        .samples = report.step * options_.global_batch,
                        .bytes_peak = static_cast<int64_t>(workspace_.usage().bytes_peak),
                        .validation_loss = report.validation_loss});
}

}  // namespace ds
