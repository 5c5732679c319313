// One epoch as this process has it: its plan, the coordinator that its ranks join, its processes,
// and what was heard of them. All of it is there as long as the object is; with the object goes all
// that is left of the epoch in this machine. Refuses to decide anything.
#pragma once

#include <spdlog/spdlog.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "launcher/control/coordinator.h"
#include "launcher/control/job_authority.h"
#include "launcher/decide/text/clock_time.h"
#include "launcher/process/ending/end_watch.h"
#include "launcher/process/world.h"
#include "launcher/report/death_certificate.h"

namespace ds {

struct EpochSetting {
  WorldStarter& starter;
  // This is the authority of the job; it is made once ranks of other hosts dial us.
  std::shared_ptr<const JobAuthority>& authority;
  spdlog::logger& log;
  std::string config_digest;
  int coordinator_port = 0;            // where ranks dial it; 0: any free one
  std::optional<Time> longest_life{};  // of the run, and of its certificates
  EndWatch* end_watch = nullptr;       // of this process; null: it has none
};

struct Epoch {
  // Opens the coordinator and starts the processes. Throws what WorldStarter throws, with nothing
  // left behind.
  Epoch(WorldPlan its_plan, const EpochSetting& setting, Time now);
  Epoch(const Epoch&) = delete;  // owns processes and a server
  Epoch& operator=(const Epoch&) = delete;
  ~Epoch();

  WorldPlan plan;
  const Time started;
  std::optional<Coordinator> coordinator;
  std::unique_ptr<World> world;
  std::map<int, uint64_t> tickets;            // of ranks that joined and wait to be admitted
  std::map<int, std::string> data_endpoints;  // of ranks that listen for data
  std::map<int, LastOutput> last_output;
  std::map<int, MemoryDeath> memory_deaths;  // of ranks that somebody else killed

 private:
  Epoch(WorldPlan its_plan, spdlog::logger& log, EndWatch* end_watch, Time now);
  // Carries it out within its bound, where somebody watches.
  template <typename Work>
  void bounded(BoundedWork bound, Work&& work);
  void open_coordinator(const EpochSetting& setting);

  spdlog::logger& log_;
  EndWatch* const end_watch_;
};

}  // namespace ds
