// overhead_bench [--width 256 --layers 4 ...]: what being watched costs. Two ranks (threads) train
// the same model in blocks of steps, with and without what dslaunch adds to each step: the ledger
// and the counts of every collective, reports of progress, the metrics of each step, and a
// heartbeat a second over gRPC to a coordinator in this process. Blocks alternate, also in who
// comes first; printed are the median seconds of a step either way and the median of the blocks'
// ratios (1.01 would be one per cent).
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <thread>

#include "comm/ledger.h"
#include "comm/shm/comm.h"
#include "comm/traced_comm.h"
#include "launcher/control/coordinator.h"
#include "launcher/process/process.h"
#include "proto/build_info.h"
#include "rankd/control/session.h"
#include "tests/bench/random_tokens.h"
#include "tests/bench/watched_steps.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

using bench::BlockTimes;
using bench::kRanks;
using bench::options_of;
using bench::StepArgs;

// The launcher's end: takes what the ranks say, as its loop would.
class Watcher {
 public:
  Watcher()
      : coordinator_({1, {"token 0", "token 1"}, build_id(), "digest"}),
        thread_([this] { serve(); }) {}
  Watcher(const Watcher&) = delete;  // the thread holds `this`
  Watcher& operator=(const Watcher&) = delete;
  ~Watcher() {
    ending_ = true;
    thread_.join();
  }

  std::unique_ptr<ControlClient> join(int rank) {
    SocketEnds ends = make_socket_pair();
    coordinator_.adopt(std::move(ends.ours));
    Bootstrap bootstrap;
    bootstrap.coordinator_address = fmt::format("fd:{}", ends.theirs.release());
    bootstrap.token = fmt::format("token {}", rank);
    bootstrap.rank = rank;
    bootstrap.config_digest = "digest";
    std::unique_ptr<ControlClient> client = connect_control(bootstrap);
    client->join();
    return client;
  }

 private:
  void serve() {
    while (!ending_) {
      pollfd ready{coordinator_.event_fd(), POLLIN, 0};
      if (poll(&ready, 1, 200) != 1) continue;
      for (const RankEvent& event : coordinator_.take_events()) {
        if (const auto* join = std::get_if<JoinEvent>(&event.body)) {
          control::JobPlan plan;
          plan.set_rank(event.rank);
          plan.set_world_size(kRanks);
          plan.set_epoch(1);
          coordinator_.admit(join->ticket, plan);
        }
      }
    }
  }

  Coordinator coordinator_;
  std::atomic<bool> ending_ = false;
  std::thread thread_;
};

// One rank's engine over one communicator.
class Trainer {
 public:
  Trainer(const EngineOptions& options, const RunPlan& plan, Communicator& comm)
      : comm_(comm),
        connections_(Connections::over(comm, {.data = comm.size()})),
        workspace_(Device::cpu(), 1, connections_.peers()),
        engine_(options, workspace_.resources(), plan.of_rank(0).step) {
    engine_.initialize();
  }

  // Seconds per step. `client` may be null.
  double block(int steps, ControlClient* client) {
    bench::RandomTokens tokens(256);
    comm_.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < steps; ++i) {
      if (client != nullptr) client->report_progress({engine_.step(), 0, "train"});
      engine_.begin_step(tokens, 0);
      engine_.next_result(Wait::kYes);
      if (client != nullptr && comm_.rank() == 0) {
        StepMetrics metrics;
        metrics.step = engine_.step();
        client->report_step(metrics);
      }
    }
    comm_.barrier();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / steps;
  }

 private:
  Communicator& comm_;
  Connections connections_;
  Workspace workspace_;
  Engine engine_;
};

// A block of its own engine: where its memory lies must not favour one side in all rounds.
double bare_block(const StepArgs& args, const RunPlan& plan, Communicator& comm) {
  Trainer trainer(options_of(args), plan, comm);
  trainer.block(2, nullptr);
  return trainer.block(args.steps, nullptr);
}

double watched_block(const StepArgs& args, const RunPlan& plan, Communicator& comm,
                     const Ledger& ledger, Watcher& watcher) {
  Trainer trainer(options_of(args), plan, comm);
  trainer.block(2, nullptr);
  const std::unique_ptr<ControlClient> client = watcher.join(comm.rank());
  client->watch_collectives([&] {
    const auto entry = ledger.current();
    return entry ? CollectiveMark{entry->number, entry->group, entry->sequence,
                                  std::string(name_of(entry->op)), entry->exit_ns < 0}
                 : CollectiveMark{};
  });
  const double seconds = trainer.block(args.steps, client.get());
  client->finish(ExitCode::kDone, ErrorOrigin::kNone, "");
  return seconds;
}

void run_rank(const StepArgs& args, const RunPlan& plan, Communicator& bare_comm,
              Communicator& watched_comm, const Ledger& ledger, std::deque<Watcher>& watchers,
              BlockTimes& times) {
  for (int round = 0; round < args.rounds; ++round) {
    const auto watched = [&] {
      return watched_block(args, plan, watched_comm, ledger, watchers[static_cast<size_t>(round)]);
    };
    const double early = round % 2 == 0 ? 0 : watched();
    const double without = bare_block(args, plan, bare_comm);
    const double with = round % 2 == 0 ? watched() : early;
    if (bare_comm.rank() == 0) times.add(without, with);
  }
}

void run(const StepArgs& args) {
  const RunPlan plan = dry_run(options_of(args), {.data = kRanks}, {});
  auto bare = make_thread_group(kRanks);
  auto inner = make_thread_group(kRanks);
  std::deque<Watcher> watchers(static_cast<size_t>(args.rounds));  // a token is good for one join
  const MonotonicClock clock;
  BlockTimes times;
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      CommVolume volume;
      Ledger ledger(64, clock);
      TracedComm watched(std::move(inner[rank]), "data", {.volume = &volume, .ledger = &ledger});
      run_rank(args, plan, *bare[rank], watched, ledger, watchers, times);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  times.print(args);
}

}  // namespace
}  // namespace ds

// Blocks of some seconds, so that each has its share of heartbeats.
int main(int argc, char** argv) {
  return ds::bench::step_bench(argc, argv, "What heartbeats, ledger and metrics cost per step",
                               {.width = 256, .length = 128, .steps = 100, .rounds = 7}, ds::run);
}
