#include "proto/step_metrics.h"

#include <string>

namespace ds {

control::StepMetrics to_proto(const StepMetrics& metrics) {
  control::StepMetrics out;
  out.set_step(metrics.step);
  out.set_total_steps(metrics.total_steps);
  for (const Metric& metric : metrics.values.said()) {
    control::Metric& added = *out.add_metrics();
    added.set_name(std::string(metric.row->name));
    added.set_value(metric.value);
  }
  return out;
}

StepMetrics from_proto(const control::StepMetrics& in) {
  StepMetrics out{.step = in.step(), .total_steps = in.total_steps()};
  for (const control::Metric& metric : in.metrics()) {
    if (find_metric_row(metric.name()) != nullptr) out.values.set(metric.name(), metric.value());
  }
  return out;
}

}  // namespace ds
