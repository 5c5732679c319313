#include "train/watch/step_reports.h"

#include <cmath>

#include "train/measure/step_note.h"

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
  const double length = report.metrics.find("sequence_length").value_or(options_.length);
  const double tokens = static_cast<double>(options_.global_batch) * length;
  StepMetrics said{
      .step = report.step, .total_steps = options_.total_steps, .values = report.metrics};
  if (options_.throughput) said.values.set("tokens_per_s", tokens / report.seconds);
  const auto samples = static_cast<double>(report.step * options_.global_batch);
  said.values.set("samples", samples);
  said.values.set("epoch", samples / static_cast<double>(options_.samples_per_epoch));
  said.values.set("time", std::round(time_() * 1e3) / 1e3);
  said.values.set("generation", static_cast<double>(options_.generation));
  said.values.set("bytes_peak",
                  static_cast<double>(nth(workspace_.usage(), Tier::kDevice).bytes_peak));
  reports_.report_step(said);
}

}  // namespace ds
