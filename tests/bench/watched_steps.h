// What benchmarks of the cost of being watched have in common: two ranks (threads) that train a
// small model in blocks of steps, with and without, and how that is told.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <vector>

#include "tests/bench/median.h"
#include "train/settings/engine_options.h"

namespace ds::bench {

constexpr int kRanks = 2;

struct StepArgs {
  int64_t width = 0, layers = 4, heads = 4, length = 0, batch = 8;
  int steps = 0;  // of a block
  int rounds = 0;
};

inline EngineOptions options_of(const StepArgs& args) {
  EngineOptions options;
  options.model = Gpt2Config{.n_layer = args.layers,
                             .n_head = args.heads,
                             .n_embd = args.width,
                             .n_positions = args.length,
                             .vocab_size = 256,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0};
  options.zero.placement.policy = zero_policy(2);
  options.optimizer.adam.lr = 1e-4;
  options.gradient_clipping = 1.0;
  options.micro_batch = args.batch / kRanks;
  options.length = args.length;
  return options;
}

// Seconds per step of blocks with and without, in pairs.
struct BlockTimes {
  std::vector<double> bare, watched;
  void add(double without, double with) {
    bare.push_back(without);
    watched.push_back(with);
  }
  // The median of each, and of the pairs' ratios.
  void print(const StepArgs& args) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < bare.size(); ++i) ratios.push_back(watched[i] / bare[i]);
    fmt::print(
        "step: {:.3f} ms bare, {:.3f} ms watched, ratio {:.4f} (median of {} blocks of {} steps)\n",
        median(bare) * 1e3, median(watched) * 1e3, median(ratios), args.rounds, args.steps);
  }
};

// The program: `args` by what its command line says otherwise, and run(args). Its exit code.
template <class Run>
int step_bench(int argc, char** argv, const char* about, StepArgs args, const Run& run) try {
  CLI::App app(about);
  app.add_option("--width", args.width);
  app.add_option("--layers", args.layers);
  app.add_option("--heads", args.heads);
  app.add_option("--length", args.length);
  app.add_option("--batch", args.batch);
  app.add_option("--steps", args.steps);
  app.add_option("--rounds", args.rounds);
  CLI11_PARSE(app, argc, argv);
  run(args);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s: %s\n", argv[0], error.what());
  return 1;
}

}  // namespace ds::bench
