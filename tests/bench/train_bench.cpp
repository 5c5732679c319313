// Training speed on the shape of a model with random weights and tokens: one process, ranks as
// threads. Prints one JSON object with the tokens per second of every timed step (the first, with
// its page faults, is not timed), and what they are of a ceiling where one is given (of one
// device). tests/bench/train_vs_torch.py interleaves it with PyTorch on CPUs, tests/gpu/run.sh runs
// it on GPUs.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

#include "comm/shm/comm.h"
#include "tests/bench/median.h"
#include "tests/bench/model_shapes.h"
#include "tests/bench/random_tokens.h"
#include "tests/support/device_name.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

struct Args {
  std::string device = "cpu";
  std::string model = "gpt2-124m";
  double ceiling_tflop_s = 0;  // 0: none
  std::string dtype = "fp32";
  int threads = 1;  // per rank
  int ranks = 1;
  int stage = 0;
  int64_t batch = 4;  // global
  int64_t length = 64;
  int steps = 3;
};

EngineOptions options_of(const Args& args) {
  const DType dtype = parse_dtype(args.dtype);
  EngineOptions options{.model = bench::shape_named(args.model),
                        .dtype = dtype,
                        .zero = {.policy = zero_policy(args.stage),
                                 .gather = {.prefetch_numel = 50'000'000,
                                            .live_numel = 1'000'000'000,
                                            .reuse_numel = 1'000'000'000},
                                 .grad_slice_dtype = dtype,
                                 .slots = {}},
                        .optimizer = {.adam = {.lr = 1e-4, .weight_decay = 0.1}},
                        .schedule = {},
                        .gradient_clipping = 1.0,
                        .micro_batch = args.batch / args.ranks,
                        .length = args.length};
  return options;
}

std::vector<double> run(const Args& args, const EngineOptions& options, const RunPlan& plan) {
  const Device device = testing::device_named(args.device).device;
  auto group = make_thread_group(args.ranks);
  std::vector<double> rates;
  std::vector<std::thread> threads;
  for (auto& comm : group) {
    threads.emplace_back([&, comm = comm.get()] {
      Connections connections = Connections::over(*comm, {.data = comm->size()});
      Workspace workspace(device, args.threads, connections.peers());
      Engine engine(options, workspace.resources(), plan.of_rank(0).step);
      engine.initialize();
      bench::RandomTokens tokens(narrow<int32_t>(dimensions(options.model).vocabulary));
      for (int step = 0; step <= args.steps; ++step) {
        comm->barrier();
        const auto start = std::chrono::steady_clock::now();
        engine.begin_step(tokens, 0);
        while (engine.begun() - engine.step() > engine.results_late())
          engine.next_result(Wait::kYes);
        comm->barrier();
        const double seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (comm->rank() == 0 && step > 0) {
          rates.push_back(static_cast<double>(args.batch * args.length) / seconds);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return rates;
}

// 6 N + 6 L C T per token: a multiply-add of every weight and of causal attention forward, and
// twice that backward.
double flops_per_token(const Args& args, const EngineOptions& options, const RunPlan& plan) {
  const ModelDimensions d = dimensions(options.model);
  return 6.0 * static_cast<double>(plan.parameters()) +
         6.0 * static_cast<double>(d.layers * d.heads * d.head_dim * args.length);
}

std::string figures(const Args& args) {
  const EngineOptions options = options_of(args);
  const RunPlan plan = dry_run(options, {.data = args.ranks}, {});
  const std::vector<double> rates = run(args, options, plan);
  const double flops = flops_per_token(args, options, plan);
  std::string mfu;
  if (args.ceiling_tflop_s > 0) {
    const double of_all = 1e12 * args.ceiling_tflop_s * args.ranks;
    mfu = fmt::format(", \"mfu\": {:.4f}", bench::median(rates) * flops / of_all);
  }
  return fmt::format("{{\"tokens_per_s\": [{:.1f}], \"flops_per_token\": {:.6g}{}}}",
                     fmt::join(rates, ", "), flops, mfu);
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  CLI::App app("Training speed on the shape of a model");
  ds::Args args;
  app.add_option("--device", args.device, "cpu, emulated or cuda:N");
  app.add_option("--model", args.model, "gpt2-124m, gpt2-1558m, llama-1.5b, llama-7b or tiny");
  app.add_option("--ceiling-tflop-s", args.ceiling_tflop_s, "what the device can do at most");
  app.add_option("--dtype", args.dtype);
  app.add_option("--threads", args.threads);
  app.add_option("--ranks", args.ranks);
  app.add_option("--stage", args.stage);
  app.add_option("--batch", args.batch);
  app.add_option("--length", args.length);
  app.add_option("--steps", args.steps);
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{}\n", ds::figures(args));
  } catch (const ds::Error& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
