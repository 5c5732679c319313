#include "train/profile/one_step.h"

#include "comm/peers.h"
#include "comm/shm/comm.h"
#include "core/values/rng.h"
#include "train/batches/any_batch.h"
#include "train/plan/dry_run.h"
#include "train/profile/flops_profiler.h"
#include "train/workspace.h"

namespace ds {
StepProfile profile_one_step(const EngineOptions& options, const FlopsProfilerConfig& config,
                             int threads) {
  EngineOptions one = options;
  one.zero.wire.micro_steps = 1;
  // The tiers where things lie between their uses are no part of the model.
  ZeroPolicy& policy = one.zero.placement.policy;
  policy.params.tier = policy.grads.tier = policy.state.tier = Tier::kDevice;
  one.zero.state.zenflow.reset();
  one.lengths.reset();
  one.offload_activations = false;
  const std::unique_ptr<Communicator> alone = std::move(make_thread_group(1).front());
  CallQueue calls;
  OpLog ops;
  Connections connections = Connections::over(*alone, {}, {.times = &calls});
  Workspace workspace(Device::cpu(), threads, connections.peers(), &ops);
  ops.follow(workspace.stream());
  Engine engine(one, workspace.resources(), dry_run(one, {}, {}).of_rank(0).step);
  engine.initialize();
  std::optional<StepProfile> found;
  StepObservers observers;
  StepTimer& timer = observers.add(std::make_unique<StepTimer>(workspace.stream(), calls));
  observers.add(std::make_unique<FlopsProfiler>(
      engine, timer, ops, config, [&](const ProfileFigures& figures, const ModuleProfile& model) {
        found = StepProfile{figures, model};
      }));
  AnyBatch batches(one.model, "profile");
  while (!found) {
    engine.begin_step(batches, 0, &observers);
    const StepResult result = engine.next_result(Wait::kYes).value();
    observers.after_step({.step = result.step, .seconds = 0, .metrics = result.metrics});
  }
  return std::move(*found);
}

}  // namespace ds
