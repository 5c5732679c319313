// insight_bench [--width 64 ...]: what it costs to have everything watched that a configuration can
// ask for: the parts of a step, memory, the communication log and all monitors; and what it costs
// to be traced, what is recorded being written included. Two ranks (threads) train one model;
// blocks of steps with and without alternate, also in which comes first. Printed are the median
// seconds of a step either way and the median of the blocks' ratios.
#include <chrono>
#include <filesystem>
#include <thread>

#include "comm/shm/comm.h"
#include "tests/bench/random_tokens.h"
#include "tests/bench/watched_steps.h"
#include "tests/support/files/temporary_directory.h"
#include "train/plan/dry_run.h"
#include "train/trace/trace_recorder.h"
#include "train/watch/observability.h"

namespace ds {
namespace {

using bench::BlockTimes;
using bench::kRanks;
using bench::StepArgs;

Config everything_on() {
  Config config;
  config.wall_clock_breakdown = config.memory_breakdown = true;
  config.comms_logger.enabled = true;
  config.tensorboard.enabled = config.csv_monitor.enabled = true;
  config.wandb.enabled = config.comet.enabled = true;
  config.comet.samples_log_interval = 0;
  config.steps_per_print = 10;
  return config;
}

class Silent final : public RunReports {
 public:
  void report_progress(const Progress&) override {}
  void report_step(const StepMetrics&) override {}
  std::vector<StepMetrics> untaken_steps() const override { return {}; }
  void report_commit(const SavedTag&) override {}
  void report_text(std::string_view) override {}
};

enum class Watch { kNone, kEverything, kTrace };

class Trainer {
 public:
  Trainer(const StepArgs& args, const RunPlan& plan, Communicator& comm, const std::string& run_dir)
      : comm_(comm),
        connections_(Connections::over(comm, {.data = kRanks}, {.times = &calls_})),
        workspace_(Device::cpu(), 1, connections_.peers(), &ops_),
        engine_(bench::options_of(args), workspace_.resources(), plan.of_rank(0).step) {
    ops_.follow(workspace_.stream());
    engine_.initialize();
    job_.rank = comm.rank();
    job_.run_dir = run_dir;
    job_.config_text = "{}";
    add_insight(observers_, {.plan = job_,
                             .config = config_,
                             .workspace = workspace_,
                             .engine = engine_,
                             .reports = reports_,
                             .calls = calls_,
                             .ops = ops_,
                             .batches = tokens_,
                             .batch = {.micro_batch = args.batch / kRanks, .ranks = kRanks},
                             .steps = 1 << 30,
                             .version = "bench"});
    StepTimer& timer = traced_.add(std::make_unique<StepTimer>(workspace_.stream(), calls_));
    trace_ = &traced_.add(std::make_unique<TraceRecorder>(
        engine_.host(), timer, ops_, phases_,
        TraceRecorder::Options{.rank = comm.rank(), .send = [this](const std::string& text, bool) {
                                 bytes_traced_ += text.size();
                               }}));
  }

  // Seconds per step.
  double block(int steps, Watch watch) {
    calls_.turn(watch == Watch::kEverything);
    StepObservers* const watching = watch == Watch::kNone    ? nullptr
                                    : watch == Watch::kTrace ? &traced_
                                                             : &observers_;
    comm_.barrier();
    const auto start = std::chrono::steady_clock::now();
    auto begun = start;
    if (watch == Watch::kTrace) trace_->execute({.steps = steps, .ranks = {0, 1}});
    for (int i = 0; i < steps; ++i) {
      engine_.begin_step(tokens_, 0, watching);
      const StepResult result = engine_.next_result(Wait::kYes).value();
      if (watching == nullptr) continue;
      const double seconds = seconds_since(begun);
      begun = std::chrono::steady_clock::now();
      watching->after_step({.step = result.step, .seconds = seconds, .metrics = result.metrics});
    }
    comm_.barrier();
    return seconds_since(start) / steps;
  }
  void end() { observers_.before_exit(RunEnd::kDone); }
  size_t bytes_traced() const { return bytes_traced_; }

 private:
  Communicator& comm_;
  CallQueue calls_;
  OpLog ops_;
  Connections connections_;
  Workspace workspace_;
  Engine engine_;
  const Config config_ = everything_on();
  JobPlan job_;
  bench::RandomTokens tokens_{256};
  Silent reports_;
  PhaseWatch phases_{reports_};
  StepObservers observers_, traced_;
  TraceRecorder* trace_ = nullptr;  // one of the latter
  size_t bytes_traced_ = 0;
};

// Blocks with and without, in turn; which comes first changes.
void compare(Trainer& trainer, const StepArgs& args, Watch watch, BlockTimes* times) {
  trainer.block(5, Watch::kNone);
  trainer.block(5, watch);
  for (int round = 0; round < args.rounds; ++round) {
    const double early = round % 2 == 0 ? 0 : trainer.block(args.steps, watch);
    const double without = trainer.block(args.steps, Watch::kNone);
    const double with = round % 2 == 0 ? trainer.block(args.steps, watch) : early;
    if (times != nullptr) times->add(without, with);
  }
}

void run(const StepArgs& args) {
  const testing::TemporaryDirectory home;
  const RunPlan plan = dry_run(bench::options_of(args), {.data = kRanks}, {});
  auto group = make_thread_group(kRanks);
  BlockTimes watched, traced;
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      Trainer trainer(args, plan, *group[rank], home.path().string());
      compare(trainer, args, Watch::kEverything, rank == 0 ? &watched : nullptr);
      compare(trainer, args, Watch::kTrace, rank == 0 ? &traced : nullptr);
      trainer.end();
      if (rank == 0) fmt::print("traced: {} bytes\n", trainer.bytes_traced());
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fmt::print("everything on: ");
  watched.print(args);
  fmt::print("traced:        ");
  traced.print(args);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  return ds::bench::step_bench(argc, argv,
                               "What monitors, breakdowns and the communication log cost per step",
                               {.width = 128, .length = 64, .steps = 60, .rounds = 15}, ds::run);
}
