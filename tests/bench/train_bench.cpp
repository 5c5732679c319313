// Training speed on the GPT-2 124M shape with random weights and tokens: one process, ranks as
// threads. Prints one JSON object with the tokens per second of every timed step (the first, with
// its page faults, is not timed). tests/bench/train_vs_torch.py interleaves it with PyTorch.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <thread>

#include "comm/shm/comm.h"
#include "tests/bench/random_tokens.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

struct Args {
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
  EngineOptions options{.model = Gpt2Config{.resid_pdrop = 0, .embd_pdrop = 0, .attn_pdrop = 0},
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

std::vector<double> run(const Args& args) {
  const EngineOptions options = options_of(args);
  const RunPlan plan = dry_run(options, {.data = args.ranks}, {});
  auto group = make_thread_group(args.ranks);
  std::vector<double> rates;
  std::vector<std::thread> threads;
  for (auto& comm : group) {
    threads.emplace_back([&, comm = comm.get()] {
      Connections connections = Connections::over(*comm, {.data = comm->size()});
      Workspace workspace(Device::cpu(), args.threads, connections.peers());
      Engine engine(options, workspace.resources(), plan.of_rank(0).step);
      engine.initialize();
      bench::RandomTokens tokens(50257);
      for (int step = 0; step <= args.steps; ++step) {
        comm->barrier();
        const auto start = std::chrono::steady_clock::now();
        engine.begin_step(tokens, 0);
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

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  CLI::App app("GPT-2 124M training speed");
  ds::Args args;
  app.add_option("--dtype", args.dtype);
  app.add_option("--threads", args.threads);
  app.add_option("--ranks", args.ranks);
  app.add_option("--stage", args.stage);
  app.add_option("--batch", args.batch);
  app.add_option("--length", args.length);
  app.add_option("--steps", args.steps);
  CLI11_PARSE(app, argc, argv);
  const std::vector<double> rates = ds::run(args);
  fmt::print("{{\"tokens_per_s\": [{:.1f}]}}\n", fmt::join(rates, ", "));
}
