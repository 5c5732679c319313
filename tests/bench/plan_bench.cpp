// What the plan says a step takes, against what it takes: GPT-2 124M and a small model, in several
// shapes. Calibration and steps take turns; per case one line with the median of the ratios.
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "comm/shm/comm.h"
#include "tests/bench/random_tokens.h"
#include "train/plan/calibration.h"
#include "train/plan/dry_run.h"
#include "train/workspace.h"

namespace ds {
namespace {

struct Case {
  const char* name;
  Gpt2Config model;
  DType dtype;
  int64_t batch, length;
};

Gpt2Config without_dropout(Gpt2Config model) {
  model.resid_pdrop = model.embd_pdrop = model.attn_pdrop = 0;
  return model;
}

std::vector<Case> cases() {
  const Gpt2Config m124 = without_dropout({});
  const Gpt2Config small = without_dropout(
      {.n_layer = 4, .n_head = 4, .n_embd = 128, .n_positions = 128, .vocab_size = 257});
  return {{"124M fp32 4x64", m124, DType::kF32, 4, 64},
          {"124M fp32 2x512", m124, DType::kF32, 2, 512},
          {"124M bf16 4x64", m124, DType::kBF16, 4, 64},
          {"124M bf16 2x512", m124, DType::kBF16, 2, 512},
          {"small fp32 8x128", small, DType::kF32, 8, 128}};
}

EngineOptions options_of(const Case& c) {
  return {.model = c.model,
          .dtype = c.dtype,
          .zero = {.placement = {.policy = zero_policy(0)}, .wire = {.slice_dtype = c.dtype}},
          .optimizer = {.adam = {.lr = 1e-4, .weight_decay = 0.1}},
          .schedule = {},
          .gradient_clipping = 1.0,
          .micro_batch = c.batch,
          .length = c.length};
}

void compare(const Case& c, int threads, int rounds) {
  const EngineOptions options = options_of(c);
  const RunPlan plan = dry_run(options, {.data = 1}, {});
  const auto alone = std::move(make_thread_group(1).front());
  Connections connections = Connections::over(*alone, {});
  Workspace workspace(Device::cpu(), threads, connections.peers());
  Engine engine(options, workspace.resources(), plan.of_rank(0).step);
  engine.initialize();
  bench::RandomTokens tokens(narrow<int32_t>(c.model.vocab_size));
  const auto timed = [](const auto& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    return seconds_since(start);
  };
  const auto step = [&] {
    engine.begin_step(tokens, 0);
    engine.next_result(Wait::kYes);
  };
  step();  // with its page faults
  std::vector<double> ratios, planned, measured, cost;
  for (int round = 0; round < rounds; ++round) {
    DeviceCeilings ceilings;
    cost.push_back(timed([&] { ceilings = calibrate(options, {.threads = threads}); }));
    planned.push_back(dry_run(options, {.data = 1}, ceilings).seconds_per_step());
    std::vector<double> steps;
    for (int i = 0; i < 3; ++i) steps.push_back(timed(step));
    std::ranges::sort(steps);
    measured.push_back(steps[1]);
    ratios.push_back(planned.back() / measured.back());
  }
  const auto median = [](std::vector<double> values) {
    std::ranges::sort(values);
    return values[values.size() / 2];
  };
  fmt::print("{:<18} planned {:.4f} s, measured {:.4f} s, ratio {:.3f} (", c.name, median(planned),
             median(measured), median(ratios));
  std::ranges::sort(ratios);
  fmt::print("{:.3f} to {:.3f}), calibration {:.2f} s\n", ratios.front(), ratios.back(),
             median(cost));
}

}  // namespace
}  // namespace ds

int main(int argc, char** argv) {
  CLI::App app("The plan's estimate of a step against the step");
  int threads = 2, rounds = 5;
  std::string only;
  app.add_option("--threads", threads);
  app.add_option("--rounds", rounds);
  app.add_option("--only", only, "cases whose names contain this");
  CLI11_PARSE(app, argc, argv);
  for (const ds::Case& c : ds::cases()) {
    if (std::string_view(c.name).find(only) != std::string_view::npos) {
      ds::compare(c, threads, rounds);
    }
  }
}
