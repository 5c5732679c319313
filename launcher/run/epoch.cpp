#include "launcher/run/epoch.h"

#include <utility>

#include "core/status/error.h"
#include "core/text/secrecy.h"
#include "core/values/index.h"
#include "launcher/agents/epoch_plan.h"
#include "launcher/process/credentials.h"
#include "launcher/process/ending/shared_memory.h"
#include "proto/build_info.h"

namespace ds {
namespace {

// gRPC waits for threads that it could not start, and the kernel for processes that wait for a
// disk.
constexpr Time kServerLimit = std::chrono::seconds(10);
constexpr Time kRanksLimit = std::chrono::minutes(5);
constexpr int kNoServer = static_cast<int>(ExitCode::kClusterUnusable);

}  // namespace

Epoch::Epoch(WorldPlan its_plan, spdlog::logger& log, EndWatch* end_watch, Time now)
    : plan(std::move(its_plan)), started(now), log_(log), end_watch_(end_watch) {}

// Once the other constructor is done the destructor is called, whatever is thrown here.
Epoch::Epoch(WorldPlan its_plan, const EpochSetting& setting, Time now)
    : Epoch(std::move(its_plan), setting.log, setting.end_watch, now) {
  if (end_watch_ != nullptr) end_watch_->owns_shared_memory(plan.shm_name);
  bounded({"starting the control server", kServerLimit, kNoServer},
          [&] { open_coordinator(setting); });
  world = setting.starter.start(plan);
  plan.forget_credentials();
  for (Fd& connection : world->take_connections()) {
    coordinator->adopt(std::move(connection));
  }
}

// The coordinator goes with its epoch: what a late process of it still says, nobody hears.
Epoch::~Epoch() {
  bounded({"ending the ranks", kRanksLimit, kNoServer},
          [&] { world.reset(); });  // kills what is left
  if (coordinator && coordinator->strangers_turned_away() > 0) {
    log_.warn("generation {}: turned away {} connections that were of no rank", plan.epoch,
              coordinator->strangers_turned_away());
  }
  bounded({"ending the control server", kServerLimit, kNoServer}, [&] { coordinator.reset(); });
  remove_shared_memory(plan.shm_name);
  if (end_watch_ != nullptr) end_watch_->owns_shared_memory("");
}

template <typename Work>
void Epoch::bounded(BoundedWork bound, Work&& work) {
  std::optional<EndWatch::Work> watched;
  if (end_watch_ != nullptr) watched.emplace(*end_watch_, std::move(bound));
  work();
}

// Before the ranks, which are told where it listens, if it has to.
void Epoch::open_coordinator(const EpochSetting& setting) {
  Coordinator::Options options{plan.epoch, plan.tokens, build_id(), setting.config_digest};
  options.addresses = setting.starter.reach(plan.ranks);
  if (!options.addresses.empty()) {
    if (!setting.authority) setting.authority = make_job_authority(setting.longest_life);
    options.port = setting.coordinator_port;
    options.authority = setting.authority.get();
  }
  coordinator.emplace(options);
  wipe(options.tokens);
  plan.coordinator_endpoints = coordinator->endpoints();
  plan.coordinator_name = coordinator->name();
  for (int rank = 0; setting.authority && rank < narrow<int>(plan.ranks.size()); ++rank) {
    const TlsIdentity identity = setting.authority->certify_rank(plan.epoch, rank);
    plan.credentials.push_back(
        {setting.authority->certificate(), identity.certificate, identity.private_key});
  }
}

}  // namespace ds
