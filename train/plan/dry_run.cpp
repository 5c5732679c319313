#include "train/dry_run.h"

#include <algorithm>

#include "comm/peers.h"
#include "train/workspace.h"

namespace ds {
namespace {

class NoData final : public BatchSource {
 public:
  void fill(int64_t, int, std::span<int32_t>, std::span<int32_t>) override {
    throw InternalError("dry run: asked for data");
  }
  int64_t first_sample(int) const override { throw InternalError("dry run: asked for data"); }
};

// First pass: on demand, recording. What the micro-step and the evaluation allocate beside the
// state; every micro-step allocates alike. A second micro-step follows the plan of gathers and
// tells when buckets are taken and given back.
StepPlan record(const EngineOptions& options, int world_size) {
  Connections nobody = Connections::meta(0, {.data = world_size});
  Workspace workspace(Device::meta(), 1, nobody.peers());
  Engine engine(options, workspace.resources(), std::nullopt);
  NoData nothing;
  StepPlan plan;
  RecordingMemory training(workspace.heap());
  {
    const MemoryScope scope(workspace.stream(), training);
    engine.first_micro_step(nothing);
  }
  RecordingMemory evaluation(workspace.heap());
  {
    const MemoryScope scope(workspace.stream(), evaluation);
    engine.evaluate(nothing, 1);
  }
  plan.train = plan_arena(training.spans());
  plan.evaluate = plan_arena(evaluation.spans());
  plan.gathers = plan_gathers(engine.store().recorded_events(), engine.store().bucket_numel(),
                              options.zero.gather);
  plan.buckets.evaluation = plan_arena(engine.store().slots().recorded());
  engine.store().follow(plan.gathers);
  engine.first_micro_step(nothing);
  plan.buckets.micro_step = plan_arena(engine.store().slots().recorded());
  return plan;
}

}  // namespace

RunPlan dry_run(const EngineOptions& options, int world_size, const DeviceCeilings& ceilings) {
  RunPlan plan;
  plan.step = record(options, world_size);
  plan.world_size = world_size;
  CommVolume volume;
  Connections nobody = Connections::meta(0, {.data = world_size}, {.volume = &volume});
  CostClock cost(ceilings);
  Workspace workspace(Device::meta(), 1, nobody.peers(), &cost);
  NoData nothing;
  Engine engine(options, workspace.resources(), plan.step);
  engine.begin_step(nothing, 0);
  engine.next_result(Wait::kYes);
  plan.flops_per_step = cost.flops();
  plan.seconds_per_step = cost.now();
  const CommVolume::ByAxis totals = volume.totals();
  for (const auto& [op, count] : totals.contains("data") ? totals.at("data") : CommVolume::ByOp{}) {
    plan.wire_bytes[op] = static_cast<double>(count.wire_bytes);
  }
  engine.evaluate(nothing, 1);
  plan.memory = workspace.usage();
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    plan.parameters += engine.store().spec(id).shape.numel();
  }
  return plan;
}

}  // namespace ds
