#include "train/plan/pipeline_plan.h"

#include <algorithm>
#include <cmath>

#include "core/values/index.h"
#include "model/parallel/pipeline_timing.h"

namespace ds {
namespace {

constexpr double kUnit = 1e-12;  // seconds

int64_t in_units(double seconds) { return std::llround(seconds / kUnit); }

}  // namespace

WorkSeconds slower_of(const WorkSeconds& one, const WorkSeconds& other) {
  WorkSeconds slower = one;
  for (const auto& [work, seconds] : other.each) {
    double& most = slower.each[work];
    most = std::max(most, seconds);
  }
  slower.ending = std::max(one.ending, other.ending);
  return slower;
}

PipelinePlan plan_pipeline(const EngineOptions& options, std::span<const WorkSeconds> work,
                           double message) {
  const int stages = narrow<int>(work.size());
  const PipelineKind kind = options.pipeline.schedule;
  const PipelineShape shape = pipeline_shape(options, stages);
  PipelinePlan plan{.schedule = kind, .micro_batches = shape.micro_batches, .layers = {}};
  std::vector<PipelineSchedule> schedules;
  double ending = 0;
  for (int stage = 0; stage < stages; ++stage) {
    schedules.push_back(pipeline_schedule(kind, shape, stage));
    plan.layers.push_back(layers_of_chunks(options, {.stage = stage, .stages = stages}));
    ending = std::max(ending, nth(work, stage).ending);
  }
  const auto cost = [&work](int stage, const PipelineInstruction& of) {
    const auto& each = nth(work, stage).each;
    const auto known = each.find({of.chunk, of.op});
    return in_units(known == each.end() ? 0 : known->second);
  };
  const PipelineTime time = time_pipeline(schedules, cost, in_units(message));
  double busy = 0;
  for (const PipelineStageTime& stage : time.stages) busy += static_cast<double>(stage.busy);
  const auto span = static_cast<double>(time.makespan);
  if (span > 0) plan.bubble = 1 - busy / (span * stages);
  plan.seconds = span * kUnit + ending;
  return plan;
}

}  // namespace ds
