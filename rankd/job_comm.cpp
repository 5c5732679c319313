#include "rankd/job_comm.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <optional>
#include <utility>

#include "comm/connect.h"
#include "comm/ledger.h"
#include "comm/mpi/comm.h"
#include "comm/peers.h"
#include "config/sections/near_ranks.h"
#include "core/status/failpoint.h"
#include "core/tasks/clock.h"
#include "rankd/control/thread_dump.h"

namespace ds {
namespace {

std::unique_ptr<Communicator> open_comm(const JobPlan& plan, TcpListener listener,
                                        std::shared_ptr<LinkBoard> board) {
  if (plan.backend == "tcp" && plan.tcp.endpoints.empty()) {
    throw Unsupported(
        fmt::format("{} ranks are to meet over TCP, but none of them was told on which address "
                    "to listen for data",
                    plan.world_size));
  }
  // The launcher sees ranks that die, fall silent or hang, and ends the epoch long before this.
  constexpr std::chrono::minutes kLongestWait{60};
  return connect({.backend = plan.backend,
                  .rank = plan.rank,
                  .size = plan.world_size,
                  .shm_name = plan.shm_name,
                  .tcp = {.listener = std::move(listener),
                          .epoch = plan.epoch,
                          .endpoints = plan.tcp.endpoints,
                          .secret = plan.tcp.secret,
                          .board = std::move(board)},
                  .timeout = kLongestWait});
}

std::string described(const std::string& backend) {
  if (backend != "mpi") return backend;
  return fmt::format("mpi ({}, {})", mpi_library(),
                     mpi_takes_cuda_memory() ? "takes CUDA memory" : "host memory only");
}

// Each rank knows of its own host alone.
void require_equal_hosts(Communicator& world, const JobPlan& plan, const MeshSizes& sizes) {
  if (world.split(sizes.shard, world.rank())->size() == world.size()) return;
  throw unequal_hosts(plan.local_size, plan.world_size);
}

}  // namespace

struct JobComm::OwnLedger {
  MonotonicClock clock;
  Ledger ledger{64, clock};

  CollectiveMark newest() const {
    const std::optional<LedgerEntry> entry = ledger.current();
    if (!entry) return {};
    return {entry->number, entry->group, entry->sequence, std::string(name_of(entry->op)),
            entry->exit_ns < 0};
  }
};

JobComm::JobComm(const JobPlan& plan, ControlClient& control, TcpListener& listener,
                 const Config& config, const MeshSizes& sizes)
    : ledger_(std::make_shared<OwnLedger>()) {
  DS_FAILPOINT("train.before_comm");
  control.watch_collectives([ledger = ledger_] { return ledger->newest(); });
  const auto board = std::make_shared<LinkBoard>();
  control.watch_links(board);
  control.on_dump([ledger = ledger_] { write_dump(ledger->ledger.to_text()); });
  world_ = open_comm(plan, std::move(listener), board);
  spdlog::info("collectives over {}", described(plan.backend));
  if (is_near_by_host(config.zero_optimization)) require_equal_hosts(*world_, plan, sizes);
  if (config.train.save_in_memory_every > 0) copies_ = world_->split(0, plan.rank);
}

TracedComm::Sinks JobComm::sinks() {
  return {.volume = &volume_, .ledger = &ledger_->ledger, .recorded = &recorded_, .times = &calls_};
}

}  // namespace ds
