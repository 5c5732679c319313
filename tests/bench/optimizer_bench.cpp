// Updates of optimizers beside streaming over as many bytes, interleaved; steps of Muon, for
// muon_vs_torch.py; of AdamW, for adam_vs_deepspeed.py; and compression to signs, for
// compress_vs_torch.py.
// usage: optimizer_bench [THREADS [ROUNDS]]
//        optimizer_bench --muon THREADS fp32|bf16 ROWSxCOLUMNS...
//        optimizer_bench --adam THREADS NUMEL
//        optimizer_bench --compress THREADS NUMEL
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "comm/meta_comm.h"
#include "core/memory/resource.h"
#include "core/tasks/thread_pool.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/elementwise/spans.h"
#include "kernels/optimizer/lamb_update.h"
#include "kernels/optimizer/rule_update.h"
#include "kernels/optimizer/update.h"
#include "kernels/quantize/signs.h"
#include "optim/rule_optimizer.h"
#include "tests/bench/median.h"

namespace ds::kernels {
namespace {

using Work = std::function<void()>;
using Clock = std::chrono::steady_clock;

constexpr int64_t kNumel = int64_t{16} << 20;

struct Bench {
  HostMemory memory;
  ThreadPool pool;
  Stream stream;
  StepScalars scalars;
  int rounds;

  Bench(int threads, int round_count)
      : pool(threads),
        stream({.memory = &memory, .pool = &pool}),
        scalars(1, stream),
        rounds(round_count) {
    scalars.upload({.lr = 1e-3, .beta1 = 0.9, .beta2 = 0.999}, 0);
  }
  Tensor room(DType dtype = DType::kF32, int64_t numel = kNumel) {
    return Tensor::zeros({numel}, dtype, stream);
  }
};

double seconds_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// In-place streaming: `count` arrays updated from one more, a cached chunk at a time.
Work streaming(Bench& bench, size_t count) {
  std::vector<Tensor> arrays;
  for (size_t i = 0; i < count; ++i) arrays.push_back(bench.room());
  return [&bench, arrays, from = bench.room()] {
    bench.pool.parallel_for(kNumel, 4096, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; i += 1024) {
        const int64_t numel = std::min<int64_t>(1024, end - i);
        for (const Tensor& to : arrays) {
          detail::accumulate_span(from.data<float>() + i, DType::kF32, to.data<float>() + i,
                                  DType::kF32, numel);
        }
      }
    });
  };
}

// `bytes` that a call reads and writes, per weight.
void compare(Bench& bench, const std::string& name, double bytes, const Work& work,
             size_t stream_arrays) {
  const Work baseline = streaming(bench, stream_arrays);
  const double stream_bytes = 8 * static_cast<double>(stream_arrays) + 4;
  constexpr double kGiga = 1e-9 * static_cast<double>(kNumel);
  std::vector<double> rates, ratios, stream_rates;
  work();
  baseline();
  for (int round = 0; round < bench.rounds; ++round) {
    rates.push_back(bytes * kGiga / seconds_of(work));
    stream_rates.push_back(stream_bytes * kGiga / seconds_of(baseline));
    ratios.push_back(rates.back() / stream_rates.back());
  }
  fmt::print("{:40} {:6.1f} GB/s   stream {:6.1f}   ratio {:.2f}\n", name, bench::median(rates),
             bench::median(stream_rates), bench::median(ratios));
}

template <class Rule>
void bench_rule(Bench& bench, const std::string& name, const Rule& rule,
                MomentFormat format = MomentFormat::kFp32) {
  RuleArgs args{.master = bench.room(), .grad = bench.room()};
  double bytes = 12;
  for (int j = 0; j < rule.states(); ++j) {
    const bool small = format == MomentFormat::kMxFp8;
    const bool root = small && j > 0;  // Adam's variance
    args.states.push_back(
        {.values = bench.room(small                           ? DType::kU8
                              : format == MomentFormat::kBf16 ? DType::kBF16
                                                              : DType::kF32),
         .scales = small ? bench.room(DType::kU8, kNumel / kMomentBlock) : Tensor(),
         .format = root ? MomentFormat::kMxFp8Root : format});
    bytes += small ? 2 + 2.0 / kMomentBlock : format == MomentFormat::kBf16 ? 4 : 8;
  }
  compare(
      bench, name, bytes, [&] { rule_update(bench.stream, args, rule, bench.scalars); },
      args.states.size() + 1);
}

void bench_updates(Bench& bench) {
  const AdamArgs adam{.master = bench.room(),
                      .grad = bench.room(),
                      .exp_avg = bench.room(),
                      .exp_avg_sq = bench.room()};
  compare(
      bench, "Adam", 28, [&] { adam_update(bench.stream, adam, bench.scalars); }, 3);
  bench_rule(bench, "Adam with amsgrad", AdamStateRule{.amsgrad = true});
  bench_rule(bench, "Adam, moments in bf16", AdamStateRule{}, MomentFormat::kBf16);
  bench_rule(bench, "Adam, moments in 8 bits", AdamStateRule{}, MomentFormat::kMxFp8);
  bench_rule(bench, "Lion", LionRule{});
  bench_rule(bench, "Lion, momentum in 8 bits", LionRule{}, MomentFormat::kMxFp8);
  bench_rule(bench, "Adagrad", AdagradRule{});
  bench_rule(bench, "SGD", SgdRule{});
  bench_rule(bench, "SGD with momentum", SgdRule{.momentum = 0.9F});
  bench_rule(bench, "RMSprop", RmspropRule{});
  bench_rule(bench, "RMSprop, centered with momentum",
             RmspropRule{.momentum = 0.9F, .centered = true});
  const LambArgs lamb{.master = adam.master,
                      .grad = adam.grad,
                      .exp_avg = adam.exp_avg,
                      .exp_avg_sq = adam.exp_avg_sq};
  const Tensor sums = bench.room(DType::kF64, kLambSums);
  compare(
      bench, "Lamb, moments and norms", 24,
      [&] { lamb_moments(bench.stream, lamb, {}, bench.scalars, sums); }, 2);
  compare(
      bench, "Lamb, weights", 16,
      [&] { lamb_apply(bench.stream, lamb, {}, bench.scalars, {.gathered = sums, .params = 1}); },
      1);
}

double least_seconds(int rounds, const Work& work) {
  double least = 1e9;
  for (int round = 0; round <= rounds; ++round) least = std::min(least, seconds_of(work));
  return least;
}

// Prints the seconds, the least of five, of an update alone; of one that unscales, clips and makes
// the copy in bf16 as well; and of the same as a pass for each.
void time_adam(int threads, int64_t numel) {
  Bench bench(threads, 5);
  const AdamArgs alone{.master = bench.room(DType::kF32, numel),
                       .grad = bench.room(DType::kF32, numel),
                       .exp_avg = bench.room(DType::kF32, numel),
                       .exp_avg_sq = bench.room(DType::kF32, numel),
                       .rule = {.weight_decay = 0.01F}};
  AdamArgs fused = alone;
  fused.copy = bench.room(DType::kBF16, numel);
  const double update =
      least_seconds(bench.rounds, [&] { adam_update(bench.stream, alone, bench.scalars); });
  const double at_once =
      least_seconds(bench.rounds, [&] { adam_update(bench.stream, fused, bench.scalars); });
  const double in_passes = least_seconds(bench.rounds, [&] {
    Tensor grad = alone.grad;
    scale(bench.stream, 1.001F, grad);
    scale(bench.stream, 0.999F, grad);
    adam_update(bench.stream, alone, bench.scalars);
    cast(bench.stream, alone.master, fused.copy);
  });
  fmt::print("{:.6f} {:.6f} {:.6f}\n", update, at_once, in_passes);
}

// Prints the seconds, the least of five, of compression with error feedback, as 1-bit Adam has it.
void time_compression(int threads, int64_t numel) {
  Bench bench(threads, 5);
  const CompressSignsArgs args{
      .values = bench.room(DType::kF32, numel),
      .error = bench.room(DType::kF32, numel),
      .signs = bench.room(DType::kU8, narrow<int64_t>(sign_bytes(to_size(numel)))),
      .scale = bench.room(DType::kF32, 1)};
  const Rng rng(1, "compression");
  for (int64_t i = 0; i < numel; ++i) {
    args.values.data<float>()[i] = rng.normal(static_cast<uint64_t>(i));
  }
  fmt::print("{:.6f}\n", least_seconds(bench.rounds, [&] { compress_signs(bench.stream, args); }));
}

// Prints the seconds of a step over the matrices, the least of five.
void time_muon(int threads, DType copy, const std::vector<std::string>& shapes) {
  Bench bench(threads, 5);
  const auto muon = make_optimizer(
      {.type = OptimizerType::kMuon, .muon = {.ns_method = ds::NewtonSchulz::kGram}});
  std::vector<ParamPlace> places;
  std::vector<Shard> parts;
  const Rng rng(1, "muon");
  for (const std::string& shape : shapes) {
    const int64_t rows = std::stoll(shape), columns = std::stoll(shape.substr(shape.find('x') + 1));
    Shard shard;
    shard.master = bench.room(DType::kF32, rows * columns);
    shard.grad = bench.room(DType::kF32, rows * columns);
    for (int64_t i = 0; i < rows * columns; ++i) {
      shard.grad.data<float>()[i] = rng.normal(static_cast<uint64_t>(i));
    }
    if (copy != DType::kF32) shard.copy = bench.room(copy, rows * columns);
    shard.slots = {bench.room(DType::kF32, rows * columns)};
    shard.fields = {
        {.param = static_cast<int>(parts.size()), .param_begin = 0, .numel = rows * columns}};
    parts.push_back(std::move(shard));
    places.push_back({.kind = 1, .rows = rows, .numel = rows * columns});
  }
  MetaComm alone(0, 1);
  fmt::print("{:.6f}\n", least_seconds(bench.rounds, [&] {
               muon->step(parts, bench.scalars, {alone, places}, bench.stream);
             }));
}

}  // namespace
}  // namespace ds::kernels

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words[0] == "--muon") {
    const bool bf16 = words.at(2) == "bf16";
    ds::kernels::time_muon(std::stoi(words.at(1)), bf16 ? ds::DType::kBF16 : ds::DType::kF32,
                           {words.begin() + 3, words.end()});
    return 0;
  }
  if (!words.empty() && words[0] == "--adam") {
    ds::kernels::time_adam(std::stoi(words.at(1)), std::stoll(words.at(2)));
    return 0;
  }
  if (!words.empty() && words[0] == "--compress") {
    ds::kernels::time_compression(std::stoi(words.at(1)), std::stoll(words.at(2)));
    return 0;
  }
  ds::kernels::Bench bench(words.empty() ? 2 : std::stoi(words[0]),
                           words.size() > 1 ? std::stoi(words[1]) : 7);
  ds::kernels::bench_updates(bench);
  return 0;
}
