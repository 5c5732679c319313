// Training speed on the shape of a model with random weights and tokens: one process, ranks as
// threads. On a device each rank has what a rank of a run has there: one block of the size that the
// dry run has planned, batches that are read ahead, results that come a step later; ranks share the
// device. Prints one JSON object: the tokens per second of every timed step (the first, with page
// faults and what is made at first use, are not timed), what they are of a ceiling where one is
// given (of one device), how long the host is busy giving a step to the device, and the bytes that
// were planned and measured. tests/bench/train_vs_torch.py interleaves it with PyTorch on CPUs,
// tests/gpu/first.sh and second.sh run it on GPUs.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <mutex>
#include <optional>

#include "comm/shm/comm.h"
#include "comm/solo_comm.h"
#include "comm/staged_comm.h"
#include "config/reader/fields.h"
#include "core/files/file.h"
#include "tests/bench/median.h"
#include "tests/bench/model_shapes.h"
#include "tests/bench/random_tokens.h"
#include "tests/support/device_name.h"
#include "tests/support/ranks.h"
#include "train/plan/dry_run.h"
#include "train/step/prefetching_source.h"
#include "train/workspace.h"

namespace ds {
namespace {

struct Args {
  std::string device = "cpu";
  std::string model = "gpt2-124m";
  double ceiling_tflop_s = 0;  // 0: none
  std::string dtype = "fp32";
  std::string moments = "fp32";
  int threads = 1;  // per rank
  int ranks = 1;
  int tensor = 1;  // of them share each layer
  int stage = 0;
  int64_t batch = 4;  // global
  int64_t length = 64;
  int steps = 3;
  bool graphs = true;
  bool tf32 = false;
  bool any_order = false;
  int64_t recomputed = 0;           // consecutive blocks that keep their inputs alone; 0: none do
  std::optional<std::string> tune;  // the file of choices
};

MomentType moments_named(const std::string& name) {
  std::vector<std::string_view> all;
  for (const EnumName& known : names_of(MomentType{})) {
    if (known.name == name) return static_cast<MomentType>(known.value);
    all.push_back(known.name);
  }
  throw ConfigError(fmt::format("--moments {}: expected {}", name, fmt::join(all, ", ")));
}

MeshSizes mesh_of(const Args& args) { return mesh_sizes(args.ranks, {.tensor = args.tensor}); }

EngineOptions options_of(const Args& args) {
  const DType dtype = parse_dtype(args.dtype);
  EngineOptions options{.model = bench::shape_named(args.model),
                        .dtype = dtype,
                        .zero = {.layout = {.gather = {.prefetch_numel = 50'000'000,
                                                       .live_numel = 1'000'000'000,
                                                       .reuse_numel = 1'000'000'000}},
                                 .placement = {.policy = zero_policy(args.stage)},
                                 .wire = {.slice_dtype = dtype}},
                        .optimizer = {.adam = {.lr = 1e-4, .weight_decay = 0.1},
                                      .moment_dtype = moments_named(args.moments)},
                        .schedule = {},
                        .gradient_clipping = 1.0,
                        .micro_batch = args.batch / mesh_of(args).data,
                        .length = args.length};
  options.gpu.attention.deterministic =
      !args.any_order;  // for the plan, too: it decides on scratch
  if (args.recomputed > 0)
    options.recomputed = {.recompute = {.part = RecomputedPart::kBlock},
                          .per_segment = args.recomputed};
  return options;
}

// As rankd has it (rankd/device/rank_device.cpp), but for NCCL, which ranks of one process do not
// share a device with.
class BenchRank {
 public:
  BenchRank(const Args& args, const EngineOptions& options, const RankPlan& plan,
            Communicator& world)
      : device_(testing::device_named(args.device).device),
        blocks_(blocks_of(device_, plan.blocks)),
        pool_(args.threads),
        tensors_(tensor_group(world)),
        connections_(Connections::over(world, tensors_ ? *tensors_ : world, mesh_of(args))),
        workspace_(
            {.device = device_, .threads = args.threads, .blocks = blocks_ ? &*blocks_ : nullptr},
            connections_.peers()),
        engine_(with_rules(options, args), workspace_.resources(), plan.step),
        tokens_(narrow<int32_t>(dimensions(options.model).vocabulary)) {
    engine_.initialize();
    if (blocks_) {
      ahead_.emplace(tokens_, PrefetchingSource::Options{.largest = engine_.batches().largest(),
                                                         .steps = untimed_steps() + args.steps,
                                                         .pinned = engine_.pinned()});
    }
  }

  // Those that are begun before the results of a step are waited for, and one.
  int untimed_steps() const { return 1 + engine_.results_late(); }
  // One step begun and the results of one taken; the seconds that beginning it took.
  double step() {
    const auto start = std::chrono::steady_clock::now();
    engine_.begin_step(ahead_ ? static_cast<BatchSource&>(*ahead_) : tokens_, 0);
    const double seconds = seconds_since(start);
    while (engine_.begun() - engine_.step() > engine_.results_late())
      engine_.next_result(Wait::kYes);
    return seconds;
  }
  void finish() {
    while (engine_.begun() > engine_.step()) engine_.next_result(Wait::kYes);
  }
  size_t bytes_peak() const { return nth(workspace_.usage(), Tier::kDevice).bytes_peak; }

  static double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  // What is made at first use, and not when a step is planned: words of flags, tables.
  static constexpr size_t kUnplannedBytes = size_t{1} << 20;

  static std::optional<DeviceBlocks> blocks_of(Device device, const BlockSizes& planned) {
    if (device.kind != Device::Kind::kCuda) return std::nullopt;
    return DeviceBlocks(device, {.device = planned.device + kUnplannedBytes,
                                 .pinned = planned.pinned + kUnplannedBytes});
  }
  EngineOptions with_rules(EngineOptions options, const Args& args) {
    options.gpu.graphs = args.graphs;
    options.gpu.matmul.allow_tf32 = args.tf32;
    const auto place = kernels::matmul_place(device_);
    if (args.tune && place)
      options.gpu.matmul.choices = &choices_.emplace(files_, *args.tune, *place);
    return options;
  }
  // Null: the world carries tensors, too.
  std::unique_ptr<Communicator> tensor_group(Communicator& world) {
    if (!blocks_) return nullptr;
    if (world.size() == 1) return std::make_unique<SoloComm>(*blocks_->device);
    return std::make_unique<StagedComm>(
        world, StagedOptions{.memory = blocks_->device.get(), .pool = &pool_});
  }

  const Device device_;
  RealFileSystem files_;
  std::optional<kernels::MatmulChoices> choices_;
  std::optional<DeviceBlocks> blocks_;
  ThreadPool pool_;
  const std::unique_ptr<Communicator> tensors_;
  Connections connections_;
  Workspace workspace_;
  Engine engine_;
  bench::RandomTokens tokens_;
  std::optional<PrefetchingSource> ahead_;
};

struct Measured {  // of rank 0
  std::vector<double> tokens_per_s;
  std::vector<double> host_seconds;  // of each timed step
  size_t bytes_peak = 0;
};

// As they come, for who stops it before the end.
void report_step(int step, double tokens_per_s, bool is_timed) {
  fmt::print(stderr, "step {}: {:.0f} tokens/s{}\n", step, tokens_per_s,
             is_timed ? "" : " (not timed)");
}

Measured run(const Args& args, const EngineOptions& options, const RunPlan& plan) {
  Measured measured;
  std::mutex measured_mutex;
  test::run_ranks(args.ranks, [&](Communicator& world) {
    BenchRank rank(args, options, plan.of_rank(world.rank()), world);
    Measured own;
    for (int step = 0; step < rank.untimed_steps() + args.steps; ++step) {
      world.barrier();
      const auto start = std::chrono::steady_clock::now();
      const double host_seconds = rank.step();
      world.barrier();
      const double seconds = BenchRank::seconds_since(start);
      const double tokens_per_s = static_cast<double>(args.batch * args.length) / seconds;
      const bool is_timed = step >= rank.untimed_steps();
      if (world.rank() == 0) report_step(step, tokens_per_s, is_timed);
      if (!is_timed) continue;
      own.tokens_per_s.push_back(tokens_per_s);
      own.host_seconds.push_back(host_seconds);
    }
    rank.finish();
    own.bytes_peak = rank.bytes_peak();
    const std::lock_guard lock(measured_mutex);
    if (world.rank() == 0) measured = std::move(own);
  });
  return measured;
}

DeviceCeilings ceilings_of(const Args& args, const EngineOptions& options) {
  const Device device = testing::device_named(args.device).device;
  return device.kind == Device::Kind::kCuda ? cuda_ceilings(options.dtype) : DeviceCeilings{};
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
  const RunPlan plan = dry_run(options, mesh_of(args), ceilings_of(args, options));
  const size_t planned = nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak;
  fmt::print(stderr, "plan: {} bytes of {}\n", planned, name_of(Tier::kDevice));
  const Measured measured = run(args, options, plan);
  const double flops = flops_per_token(args, options, plan);
  std::string mfu;
  if (args.ceiling_tflop_s > 0) {
    const double of_all = 1e12 * args.ceiling_tflop_s * args.ranks;
    mfu = fmt::format(", \"mfu\": {:.4f}", bench::median(measured.tokens_per_s) * flops / of_all);
  }
  return fmt::format(
      "{{\"tokens_per_s\": [{:.1f}], \"flops_per_token\": {:.6g}{}, "
      "\"host_seconds_per_step\": {:.3g}, \"{}_bytes_planned\": {}, "
      "\"{}_bytes_measured\": {}}}",
      fmt::join(measured.tokens_per_s, ", "), flops, mfu, bench::median(measured.host_seconds),
      name_of(Tier::kDevice), planned, name_of(Tier::kDevice), measured.bytes_peak);
}

}  // namespace
}  // namespace ds

// NOLINTNEXTLINE(bugprone-exception-escape): what is no ds::Error may end the program
int main(int argc, char** argv) {
  CLI::App app("Training speed on the shape of a model");
  ds::Args args;
  app.add_option("--device", args.device, "cpu, emulated or cuda:N");
  app.add_option("--model", args.model,
                 "gpt2-124m, gpt2-1558m, gpt2-2x128, llama-0.6b, llama-110m, llama-1.5b, llama-7b, "
                 "qwen3-0.6b or tiny");
  app.add_option("--ceiling-tflop-s", args.ceiling_tflop_s, "what the device can do at most");
  app.add_option("--dtype", args.dtype);
  app.add_option("--moments", args.moments,
                 "How the optimizer keeps its state: fp32, bf16 or mxfp8");
  app.add_option("--threads", args.threads);
  app.add_option("--ranks", args.ranks, "They share the device");
  app.add_option("--tensor", args.tensor, "Of the ranks share each layer");
  app.add_option("--stage", args.stage);
  app.add_option("--batch", args.batch);
  app.add_option("--length", args.length);
  app.add_option("--steps", args.steps);
  app.add_flag("!--no-graphs", args.graphs, "Steps kernel by kernel, on a GPU");
  app.add_flag("--tf32", args.tf32, "Products of fp32 in TF32, on a GPU");
  app.add_flag("--nondeterministic", args.any_order,
               "Attention's backward pass adds in any order, on a GPU with cuDNN");
  app.add_option("--recompute", args.recomputed,
                 "Activation checkpointing of segments of this many blocks");
  app.add_option("--tune", args.tune, "Products tuned, on a GPU; the file that keeps the choices");
  CLI11_PARSE(app, argc, argv);
  try {
    fmt::print("{}\n", ds::figures(args));
  } catch (const ds::Error& error) {
    fmt::print(stderr, "train_bench: {}\n", error.what());
    return static_cast<int>(error.exit_code());
  }
}
