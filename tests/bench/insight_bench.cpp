// insight_bench [--width 64 ...]: what it costs to have everything watched that a configuration can
// ask for: the parts of a step, memory, the communication log and all monitors. Two ranks (threads)
// train one model; blocks of steps with and without alternate, also in which comes first. Printed
// are the median seconds of a step either way and the median of the blocks' ratios.
#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "comm/shm/comm.h"
#include "tests/bench/median.h"
#include "tests/bench/random_tokens.h"
#include "tests/support/temporary_directory.h"
#include "train/plan/dry_run.h"
#include "train/watch/insight.h"

namespace ds {
namespace {

using bench::median;

constexpr int kRanks = 2;

struct Args {
  int64_t width = 128, layers = 4, heads = 4, length = 64, batch = 8;
  int steps = 60;  // of a block
  int rounds = 15;
};

EngineOptions options_of(const Args& args) {
  EngineOptions options;
  options.model = Gpt2Config{.n_layer = args.layers,
                             .n_head = args.heads,
                             .n_embd = args.width,
                             .n_positions = args.length,
                             .vocab_size = 256,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0};
  options.zero.policy = zero_policy(2);
  options.optimizer.adam.lr = 1e-4;
  options.gradient_clipping = 1.0;
  options.micro_batch = args.batch / kRanks;
  options.length = args.length;
  return options;
}

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

class Trainer {
 public:
  Trainer(const Args& args, const RunPlan& plan, Communicator& comm, const std::string& run_dir)
      : comm_(comm),
        connections_(Connections::over(comm, {.data = kRanks}, {.times = &calls_})),
        workspace_(Device::cpu(), 1, connections_.peers(), &ops_),
        engine_(options_of(args), workspace_.resources(), plan.of_rank(0).step) {
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
                             .batch = {.micro_batch = args.batch / kRanks, .ranks = kRanks},
                             .steps = 1 << 30,
                             .version = "bench"});
  }

  // Seconds per step.
  double block(int steps, bool watched) {
    bench::RandomTokens tokens(256);
    calls_.turn(watched);
    comm_.barrier();
    const auto start = std::chrono::steady_clock::now();
    auto begun = start;
    for (int i = 0; i < steps; ++i) {
      engine_.begin_step(tokens, 0, watched ? &observers_ : nullptr);
      const StepResult result = engine_.next_result(Wait::kYes).value();
      if (!watched) continue;
      const double seconds = seconds_since(begun);
      begun = std::chrono::steady_clock::now();
      observers_.after_step({.step = result.step, .seconds = seconds, .metrics = result.metrics});
    }
    comm_.barrier();
    return seconds_since(start) / steps;
  }
  void end() { observers_.before_exit(RunEnd::kDone); }

 private:
  Communicator& comm_;
  CallQueue calls_;
  OpLog ops_;
  Connections connections_;
  Workspace workspace_;
  Engine engine_;
  const Config config_ = everything_on();
  JobPlan job_;
  Silent reports_;
  StepObservers observers_;
};

void run(const Args& args) {
  const testing::TemporaryDirectory home;
  const RunPlan plan = dry_run(options_of(args), {.data = kRanks}, {});
  auto group = make_thread_group(kRanks);
  std::vector<double> bare, watched, ratios;
  std::vector<std::thread> ranks;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&, rank] {
      Trainer trainer(args, plan, *group[rank], home.path().string());
      trainer.block(5, false);
      trainer.block(5, true);
      for (int round = 0; round < args.rounds; ++round) {
        const double early = round % 2 == 0 ? 0 : trainer.block(args.steps, true);
        const double without = trainer.block(args.steps, false);
        const double with = round % 2 == 0 ? trainer.block(args.steps, true) : early;
        if (rank != 0) continue;
        bare.push_back(without);
        watched.push_back(with);
        ratios.push_back(with / without);
      }
      trainer.end();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  fmt::print("step: {:.3f} ms bare, {:.3f} ms watched, ratio {:.4f} (median of {} blocks of {})\n",
             median(bare) * 1e3, median(watched) * 1e3, median(ratios), args.rounds, args.steps);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  CLI::App app("What monitors, breakdowns and the communication log cost per step");
  ds::Args args;
  app.add_option("--width", args.width);
  app.add_option("--layers", args.layers);
  app.add_option("--heads", args.heads);
  app.add_option("--length", args.length);
  app.add_option("--batch", args.batch);
  app.add_option("--steps", args.steps);
  app.add_option("--rounds", args.rounds);
  CLI11_PARSE(app, argc, argv);
  ds::run(args);
}
