// The ranks of an epoch on several hosts, each started and watched by the agent of its host. The
// launcher keeps their logs, so the hosts need no common log folder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "launcher/agents/host_agents.h"
#include "launcher/process/files/run_directory.h"
#include "launcher/process/world.h"

namespace ds {

struct HostWorldOptions {
  std::string program;                           // rankd, the same path on every host
  std::filesystem::path directory;               // the working directory, on every host
  std::vector<std::string> environment;          // "NAME=value", on top of what the host gives
  std::vector<std::string> shell_environment{};  // "NAME=text", which each host reads as a shell
  std::string config_digest;
  SlotVariables variables{};                                   // on top of all others
  std::map<std::string, std::vector<std::vector<int>>> cores;  // host -> cores of each local rank
  // Says so for the hosts of an epoch, once they are reached. Empty: `cores` holds for all of them.
  std::function<std::map<std::string, std::vector<std::vector<int>>>(
      const std::vector<ReachedHost>&)>
      bind{};
  // The GPU of each rank, which sees no other, said for every epoch. Empty: they need none.
  std::function<std::vector<std::string>(const std::vector<RankPlacement>&,
                                         const std::vector<ReachedHost>&)>
      place_gpus{};
  std::vector<std::string> gpus{};
  // Looks at hosts that come later, with the ranks they are to hold. Throws HostsUnusable. Empty:
  // nobody does.
  std::function<void(const std::vector<RankPlacement>&, const std::vector<ReachedHost>&)> examine{};
  std::set<std::string> examined{};  // hosts that somebody has looked at already
};

class HostWorld final : public World {
 public:
  // What the ranks of the plan are reached by.
  struct Reached {
    const std::map<std::string, ReachedHost>& hosts;                  // by name
    const std::map<std::string, std::string>& coordinator_endpoints;  // by the host's address of it
  };
  HostWorld(const HostWorldOptions& options, const WorldPlan& plan, const RunDirectory& directory,
            RankLog log, const Reached& reached);
  ~HostWorld() override;

  int size() const override { return static_cast<int>(ranks_.size()); }
  std::string describe(int rank) const override;
  std::vector<Fd> take_connections() override { return {}; }
  void add_poll_descriptors(std::vector<pollfd>& out) const override;
  void pump(const RankSink& sink) override;
  std::optional<ExitStatus> newly_ended(int rank, const RankSink& sink) override;
  void kill_all() override;
  int64_t pid_of(int rank) const override { return ranks_.at(static_cast<size_t>(rank)).pid; }
  MemoryDeath memory_death_of(int rank) const override {
    return ranks_.at(static_cast<size_t>(rank)).memory;
  }
  std::optional<GpuState> gpu_of(int rank) const override;
  std::string loss_of(int rank) const override;
  std::vector<std::string> lost_hosts() override;

 private:
  struct Rank {
    HostLink* link = nullptr;
    std::string host;
    int64_t pid = 0;
    std::optional<ExitStatus> ended;
    bool reported = false;
    std::string loss;  // it did not end, its host did
    MemoryDeath memory{};
  };
  void take(const agent::FromAgent& message, const HostLink& link, const RankSink& sink);
  Rank* rank_of(int64_t epoch, int rank, const HostLink& link);
  void lose_ranks_of(const HostLink& link);
  void fail_start(const HostLink& link, const std::string& why, int exit_code,
                  const RankSink& sink);
  bool all_ended() const;
  void pump_links(const RankSink& sink);
  void hear_late_hosts();

  const RankLog log_;
  const int64_t epoch_;
  const std::vector<std::string> gpus_;               // of each rank; empty: they have none
  std::map<const HostLink*, GpuReport> gpu_reports_;  // the newest
  std::vector<HostLink*> links_;
  std::vector<Rank> ranks_;
  std::vector<std::pair<int, std::string>> kept_;  // lines that came while nobody could take them
};

class HostWorldStarter final : public WorldStarter {
 public:
  HostWorldStarter(HostAgents& agents, HostWorldOptions options, const RunDirectory& directory,
                   RankLog log)
      : agents_(agents),
        options_(std::move(options)),
        directory_(directory),
        log_(std::move(log)) {}

  std::vector<std::string> reach(const std::vector<RankPlacement>& ranks) override;
  std::string cut_between(const std::string& host,
                          const std::vector<RankPlacement>& ranks) override;
  void seek(const std::string& host) override { agents_.seek(host); }
  std::vector<CandidateHost> take_candidates() override { return agents_.take_candidates(); }
  void tend() override { agents_.tend(); }
  void add_poll_descriptors(std::vector<pollfd>& out) const override {
    agents_.add_poll_descriptors(out);
  }
  std::unique_ptr<World> start(const WorldPlan& plan) override;

 private:
  void examine_newcomers(const std::vector<RankPlacement>& ranks,
                         const std::vector<ReachedHost>& reached);

  HostAgents& agents_;
  HostWorldOptions options_;
  const RunDirectory directory_;
  const RankLog log_;
  std::map<std::string, ReachedHost> reached_;
  std::vector<std::string> listen_addresses_;
};

// Each host of `ranks` once, in the order of their first rank.
std::vector<std::string> hosts_of(const std::vector<RankPlacement>& ranks);

}  // namespace ds
