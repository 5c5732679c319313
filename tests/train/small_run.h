// A small run from the dry run to the saved tag, on every kind of rank.
#pragma once

#include <algorithm>

#include "tests/support/ranks.h"
#include "tests/support/temporary_directory.h"
#include "tests/train/small_engine.h"
#include "train/checkpointing.h"
#include "train/plan/dry_run.h"

namespace ds::testing {

inline DeviceCeilings ceilings_of(HostAccess access) {
  return {.device = access == HostAccess::kNever ? test_device().device : Device::cpu()};
}

// Loads what there is, trains up to `until`, saves.
inline Outcome train(const Setting& setting, FileSystem& files, int64_t until) {
  const EngineOptions options = options_of(setting);
  const RunPlan plan = dry_run(options, {.data = setting.ranks}, ceilings_of(setting.host_access));
  Outcome outcome;
  std::mutex outcome_mutex;
  const TemporaryDirectory swap_directory;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    with_rank(
        comm, setting.host_access,
        [&](auto& rank) {
          RankResources resources = rank.resources();
          resources.results_late = std::max(resources.results_late, setting.results_late);
          const TestSwap swap(swap_directory.path().string(), comm.rank(), comm.size(),
                              rank.account(Tier::kNvme));
          resources.swap = &swap.place;
          Engine engine(options, resources, plan.of_rank(comm.rank()).step);
          JobPlan job;
          job.rank = comm.rank();
          job.world_size = comm.size();
          job.run_dir = "/run";
          Checkpointing checkpoints(engine, files, job, {});
          engine.restore_step(checkpoints.load(std::nullopt));
          CountingSource source(options, comm.rank(), comm.size());
          const auto results = rank.run([&] { return train_until(engine, source, until); });
          for (const StepResult& result : results) {
            if (comm.rank() == 0) outcome.losses.push_back(result.metrics.at("loss"));
          }
          rank.run([&] { return engine.evaluate(source, 1); });
          checkpoints.save();
          collect(engine, outcome, outcome_mutex);
          if (comm.rank() == 0) outcome.memory = rank.usage();
          if (comm.rank() == 0) outcome.tiers = rank.tiers();
        },
        setting.devices);
  });
  return outcome;
}

}  // namespace ds::testing
