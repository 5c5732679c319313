// The ranks of this machine as processes: started all at once, each with its orders on standard
// input, its log file as standard output and a pipe for what the user should see.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/values/index.h"
#include "launcher/process/devices/gpu_sampler.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/process/kept_memory.h"
#include "launcher/process/rank_process.h"
#include "launcher/process/world.h"

namespace ds {

class LocalWorld final : public World {
 public:
  struct Options {
    std::string program;
    std::vector<std::string> environment;
    std::string config_digest;
    std::vector<std::vector<int>> cores{};  // of each rank, which is bound to them; empty: none is
    SlotVariables variables{};              // on top of `environment`
    std::vector<std::string> gpus{};        // of each rank, which sees no other; empty: all do
    std::string nvml = kNvmlFile;           // by which those are looked at
    int memory_fd = -1;                     // what the ranks keep their state in; the starter's
  };

  // Who hears of the ranks.
  struct Listeners {
    RankLog log;
    const std::vector<AppendFile>& files;  // the log of each rank, which takes its standard output
    const GpuSampler* sampler;  // looks at their GPUs and outlives the world; null: nobody does
  };

  // Starts every rank of the plan. Throws InputMissing, IoError.
  LocalWorld(const Options& options, const WorldPlan& plan, const RunDirectory& directory,
             Listeners listeners);

  int size() const override { return narrow<int>(ranks_.size()); }
  std::string describe(int rank) const override;
  std::vector<Fd> take_connections() override;
  void add_poll_descriptors(std::vector<pollfd>& out) const override;
  void pump(const RankSink& sink) override;
  std::optional<ExitStatus> newly_ended(int rank, const RankSink& sink) override;
  void kill_all() override;
  int64_t pid_of(int rank) const override { return ranks_.at(to_size(rank)).process.pid(); }
  MemoryDeath memory_death_of(int rank) const override {
    return memory_.examine(ranks_.at(to_size(rank)).process.pid());
  }
  std::optional<GpuState> gpu_of(int rank) const override;

 private:
  struct Rank {
    RankProcess process;
    Fd connection;
  };
  static Rank start(int rank, const Options& options, const WorldPlan& plan,
                    const RunDirectory& directory, const AppendFile& file);
  RankProcess::Sink log_and_show(int number, const RankSink& sink);

  const RankLog log_;
  const std::vector<std::string> gpus_;
  const GpuSampler* const sampler_;
  const MemoryWatch memory_;  // before the ranks
  std::vector<Rank> ranks_;
};

class LocalStarter final : public WorldStarter {
 public:
  LocalStarter(LocalWorld::Options options, const RunDirectory& directory, RankLog log)
      : options_(std::move(options)),
        directory_(directory),
        log_(std::move(log)),
        memory_(make_kept_memory()) {
    options_.memory_fd = memory_.get();
    if (!options_.gpus.empty()) sampler_.emplace(GpuSampler::Options{.file = options_.nvml});
  }
  std::unique_ptr<World> start(const WorldPlan& plan) override;

 private:
  LocalWorld::Options options_;
  const RunDirectory directory_;
  const RankLog log_;
  const Fd memory_;
  std::optional<GpuSampler> sampler_;
  // The log files are indexed by rank, and opened once, so that a restart asks nothing of the disk.
  std::vector<AppendFile> files_;
};

}  // namespace ds
