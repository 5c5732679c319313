#include "launcher/run/epoch.h"

#include <utility>

#include "core/index.h"
#include "core/secrecy.h"
#include "launcher/agents/epoch_plan.h"
#include "launcher/process/credentials.h"
#include "proto/build_info.h"

namespace ds {

Epoch::Epoch(WorldPlan its_plan, spdlog::logger& log, Time now)
    : plan(std::move(its_plan)), started(now), log_(log) {}

// Once the other constructor is done the destructor is called, whatever is thrown here.
Epoch::Epoch(WorldPlan its_plan, const EpochSetting& setting, Time now)
    : Epoch(std::move(its_plan), setting.log, now) {
  open_coordinator(setting);
  world = setting.starter.start(plan);
  plan.forget_credentials();
  for (Fd& connection : world->take_connections()) {
    coordinator->adopt(std::move(connection));
  }
}

// The coordinator goes with its epoch: what a late process of it still says, nobody hears.
Epoch::~Epoch() {
  world.reset();  // kills what is left
  if (coordinator && coordinator->strangers_turned_away() > 0) {
    log_.warn("epoch {}: turned away {} connections that were of no rank", plan.epoch,
              coordinator->strangers_turned_away());
  }
  coordinator.reset();
  remove_shared_memory(plan.shm_name);
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
