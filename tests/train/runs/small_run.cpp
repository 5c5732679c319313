#include "tests/train/runs/small_run.h"

#include "tests/support/test_device.h"

namespace ds::testing {

DeviceCeilings ceilings_of(HostAccess access) {
  return {.device = access == HostAccess::kNever ? test_device().device : Device::cpu()};
}

Outcome train(const Setting& setting, const EngineOptions& options, FileSystem& files,
              int64_t until) {
  const RunPlan plan = dry_run(options, mesh_of(setting), ceilings_of(setting.host_access));
  const TemporaryDirectory swap;
  Outcome outcome;
  std::mutex outcome_mutex;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    with_rank(
        comm, setting.host_access,
        [&](auto& rank) {
          RankResources resources = rank.resources();
          resources.results_late = std::max(resources.results_late, setting.results_late);
          const auto opener = [&](const char* of) {
            if (setting.swap_files) return setting.swap_files(of, comm.rank());
            return swap_opener(
                {.nvme_path = swap.path().string(),
                 .of = of,
                 .owner = {.job = "test", .rank = comm.rank(), .world = comm.size()}});
          };
          resources.open_weight_swap = opener("parameters");
          resources.open_state_swap = opener("state");
          Engine engine(options, resources, plan.of_rank(comm.rank()).step);
          JobPlan job;
          job.rank = comm.rank();
          job.world_size = comm.size();
          job.run_dir = "/run";
          Checkpointing checkpoints(engine, files, job, {});
          engine.restore_step(checkpoints.load(std::nullopt));
          const Mesh& mesh = resources.peers.mesh;
          CountingSource source(options, mesh);
          const auto results = rank.run([&] { return train_until(engine, source, until); });
          for (const StepResult& result : results) {
            if (comm.rank() != 0) continue;
            outcome.losses.push_back(result.metrics.at("loss"));
            outcome.scales.push_back(result.metrics.at("loss_scale"));
            outcome.skipped.push_back(result.metrics.at("skipped_steps"));
          }
          const double loss = rank.run([&] { return engine.evaluate(source, 1); });
          if (comm.rank() == 0) outcome.validation_loss = loss;
          checkpoints.save();
          collect(engine, outcome, outcome_mutex);
          if (comm.rank() == 0) {
            outcome.tiers = rank.tiers();
            outcome.memory = nth(outcome.tiers, Tier::kDevice);
          }
        },
        setting.devices, plan.mesh);
  });
  return outcome;
}

Outcome train(const Setting& setting, FileSystem& files, int64_t until) {
  return train(setting, options_of(setting), files, until);
}

}  // namespace ds::testing
