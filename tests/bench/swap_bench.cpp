// Steps of a rank whose weights and optimizer state lie in swap files, or on the host, or share
// that: one rank, random weights and tokens. For each line of its input it makes a step and prints
// a line of JSON: the seconds, the bytes that passed the disk, and how long it stood still for
// them. tests/bench/swap_vs_fio.py runs several in turn, with fio on the same disk between them.
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/values/index.h"
#include "tests/bench/model_shapes.h"
#include "tests/bench/random_tokens.h"
#include "tests/support/ranks.h"
#include "train/plan/dry_run.h"
#include "train/step/swap.h"
#include "train/workspace.h"

namespace ds {
namespace {

struct Args {
  std::string folder;
  std::string state = "nvme", params = "device";
  int64_t layers = 6, width = 768, batch = 1, length = 256;
  int threads = 1;
  int64_t part_numel = 4'000'000, bucket_numel = 10'000'000;
  int buffers = 4;
  bool pipeline = true, ahead = false;
  double clipping = 1;
  IoOptions io{.block_size = 1 << 20, .queue_depth = 32};
};

Tier tier_named(const std::string& name) {
  for (const Tier tier : {Tier::kDevice, Tier::kHost, Tier::kNvme}) {
    if (name == name_of(tier)) return tier;
  }
  throw ConfigError(fmt::format("{}: expected device, host or nvme", name));
}

EngineOptions options_of(const Args& args) {
  Gpt2Config model = bench::gpt2_shape(args.layers, args.width / 64, args.width);
  model.vocab_size = 256;
  model.n_positions = args.length;
  ZeroPolicy policy = zero_policy(3);
  policy.state.tier = policy.grads.tier = tier_named(args.state);
  policy.params.tier = tier_named(args.params);
  const bool swaps_weights = policy.params.tier == Tier::kNvme;
  return {.model = model,
          .dtype = DType::kF32,
          .zero = {.layout = {.bucket_numel = args.bucket_numel,
                              .persistence_numel = 10'000,
                              .gather = {.prefetch_numel = args.bucket_numel,
                                         .live_numel = 3 * args.bucket_numel,
                                         .reuse_numel = args.bucket_numel,
                                         .fetch_numel = 2 * args.bucket_numel,
                                         .fetches = args.buffers}},
                   .placement = {.policy = policy,
                                 .weights = {.host_numel = swaps_weights ? 0 : INT64_MAX,
                                             .buffers = args.buffers}},
                   .state = {.sub_group_numel = args.part_numel,
                             .update_ahead = args.ahead,
                             .rolling = {.buffers = args.buffers,
                                         .pipeline_read = args.pipeline,
                                         .pipeline_write = args.pipeline,
                                         .fast_init = true,
                                         .pinning = Pinning::kNone}},
                   .wire = {.slice_dtype = DType::kF32}},
          .optimizer = {.adam = {.lr = 1e-4, .weight_decay = 0.1}},
          .schedule = {},
          .gradient_clipping = args.clipping,
          .micro_batch = args.batch,
          .length = args.length};
}

// Makes the files as a run does, and keeps who reads and writes them.
class Files {
 public:
  explicit Files(const Args& args) : args_(args) {}
  SwapOpener opener(const std::string& of) {
    return [this, open = swap_opener({.nvme_path = args_.folder,
                                      .of = of,
                                      .owner = {.job = fmt::format("bench-{}", ::getpid())},
                                      .io = args_.io})](int64_t bytes) {
      std::unique_ptr<Swapper> swapper = open(bytes);
      swappers_.push_back(swapper.get());
      return swapper;
    };
  }
  SwapFigures figures() const {
    SwapFigures sum;
    for (const Swapper* swapper : swappers_) {
      const SwapFigures one = swapper->figures();
      sum.bytes_read += one.bytes_read;
      sum.bytes_written += one.bytes_written;
      sum.read_waits_s += one.read_waits_s;
      sum.write_waits_s += one.write_waits_s;
    }
    return sum;
  }

 private:
  const Args& args_;
  std::vector<const Swapper*> swappers_;  // the engine's, which outlive every step
};

void run(const Args& args) {
  const EngineOptions options = options_of(args);
  const RunPlan plan = dry_run(options, {.data = 1}, {});
  Files files(args);
  test::run_ranks(1, [&](Communicator& world) {
    Connections connections = Connections::over(world, {.data = 1});
    Workspace workspace({.threads = args.threads, .updater_threads = args.ahead ? 1 : 0},
                        connections.peers());
    RankResources resources = workspace.resources();
    const auto opener = [&](const char* of) {
      return args.folder.empty() ? SwapOpener() : files.opener(of);
    };
    resources.open_state_swap = opener("state");
    resources.open_weight_swap = opener("parameters");
    Engine engine(options, resources, plan.of_rank(0).step);
    engine.initialize();
    bench::RandomTokens tokens(narrow<int32_t>(dimensions(options.model).vocabulary));
    std::string line;
    while (std::getline(std::cin, line)) {
      const SwapFigures before = files.figures();
      const auto begun = std::chrono::steady_clock::now();
      engine.begin_step(tokens, 0);
      engine.next_result(Wait::kYes);
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
      const SwapFigures after = files.figures();
      fmt::print(
          "{{\"seconds\": {:.6f}, \"bytes_read\": {}, \"bytes_written\": {}, \"read_waits_s\": "
          "{:.6f}, \"write_waits_s\": {:.6f}, \"parameters\": {}}}\n",
          seconds.count(), after.bytes_read - before.bytes_read,
          after.bytes_written - before.bytes_written, after.read_waits_s - before.read_waits_s,
          after.write_waits_s - before.write_waits_s, plan.parameters());
      std::fflush(stdout);
    }
  });
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  ds::Args args;
  CLI::App app("Steps of a rank that swaps");
  app.add_option("--folder", args.folder, "on the disk to swap to");
  app.add_option("--state", args.state, "where optimizer state is: device, host, nvme");
  app.add_option("--params", args.params, "where weights are: device, host, nvme");
  app.add_option("--layers", args.layers);
  app.add_option("--width", args.width);
  app.add_option("--batch", args.batch);
  app.add_option("--length", args.length);
  app.add_option("--threads", args.threads);
  app.add_option("--part-numel", args.part_numel, "sub_group_size");
  app.add_option("--bucket-numel", args.bucket_numel, "reduce_bucket_size");
  app.add_option("--buffers", args.buffers, "buffer_count");
  app.add_flag("!--no-pipeline", args.pipeline, "pipeline_read and pipeline_write");
  app.add_flag("--ahead", args.ahead, "super_offload");
  app.add_option("--clipping", args.clipping, "gradient_clipping");
  app.add_option("--block-size", args.io.block_size);
  app.add_option("--queue-depth", args.io.queue_depth);
  CLI11_PARSE(app, argc, argv);
  spdlog::set_level(spdlog::level::warn);  // its lines go where the figures go
  try {
    ds::run(args);
  } catch (const ds::Error& error) {
    fmt::print(stderr, "swap_bench: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
