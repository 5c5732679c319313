// What the dry run says of a job, against what can be worked out without it, and how it is told.
#include "train/plan/dry_run.h"

#include <numeric>

#include "config/reader/json_reader.h"
#include "kernels/front/cuda_halves.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/limits.h"
#include "train/step/prefetching_source.h"

using namespace ds;
using ds::testing::options_of;
using ds::testing::text_batches;

namespace {

size_t bytes_of(const RunPlan& plan, MemoryTag tag) {
  return nth(nth(plan.of_rank(0).memory, Tier::kDevice).tag_bytes_at_peak, tag);
}

double wire_of(const RunPlan& plan) {
  double sum = 0;
  for (const auto& [op, bytes] : plan.of_rank(0).wire_bytes.at("data")) sum += bytes;
  return sum;
}

// Elements of a GPT-2 whose last product shares the embedding.
int64_t parameters_of(const Gpt2Config& model) {
  const int64_t n = model.n_embd;
  const int64_t attention = n * 3 * n + 3 * n + n * n + n;
  const int64_t mlp = n * 4 * n + 4 * n + 4 * n * n + n;
  return (model.vocab_size + model.n_positions) * n + model.n_layer * (attention + mlp + 4 * n) +
         2 * n;
}

RunPlan plan_of(const testing::Setting& setting) {
  return dry_run(options_of(setting), {.data = setting.ranks}, {});
}

RankPlan written_out(std::vector<int> ranks) {
  RankPlan plan;
  plan.ranks = std::move(ranks);
  plan.parameters = 1'250'000;
  MemoryUsage& device = nth(plan.memory, Tier::kDevice);
  device.bytes_peak = (size_t{3} << 20) + (size_t{1} << 19);
  device.tag_bytes_at_peak[0] = size_t{3} << 20;
  device.tag_bytes_at_peak[3] = size_t{1} << 19;
  plan.wire_bytes = {{"data", {{"all_gather", 2048}, {"reduce_scatter", 100}}}};
  plan.flops_per_step = 2.5e9;
  plan.seconds_per_step = 0.125;
  return plan;
}

}  // namespace

TEST_CASE("the dry run counts every parameter once, whatever the world", "[train]") {
  const auto model = std::get<Gpt2Config>(options_of({}).model);
  for (const int ranks : {1, 2, 4}) {
    for (const int stage : {0, 3}) {
      CAPTURE(ranks, stage);
      CHECK(plan_of({.ranks = ranks, .stage = stage}).parameters() == parameters_of(model));
    }
  }
}

TEST_CASE("the work of a step is that of its tokens", "[train]") {
  const RunPlan one = plan_of({});
  const EngineOptions options = options_of({});
  const auto model = std::get<Gpt2Config>(options.model);
  // Products alone: six operations for each weight and token, positions and norms left out, and
  // what attention makes of pairs of tokens on top.
  const int64_t multiplied = parameters_of(model) - model.n_positions * model.n_embd;
  const auto tokens = static_cast<double>(options.micro_batch * options.length);
  const double products = 6 * static_cast<double>(multiplied) * tokens;
  CHECK(one.of_rank(0).flops_per_step > 0.9 * products);
  CHECK(one.of_rank(0).flops_per_step < 1.5 * products);
  // Two ranks halve it, as do micro-steps of half the size that are twice as many not.
  CHECK(plan_of({.ranks = 2}).of_rank(0).flops_per_step ==
        Approx(one.of_rank(0).flops_per_step / 2).epsilon(0.05));
  CHECK(plan_of({.micro_steps = 2}).of_rank(0).flops_per_step ==
        Approx(one.of_rank(0).flops_per_step).epsilon(0.05));
}

TEST_CASE("a rank alone sends nothing, and ranks together send what their stage needs", "[train]") {
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    CHECK(wire_of(plan_of({.stage = stage})) == 0);
    CHECK(wire_of(plan_of({.ranks = 4, .stage = stage})) > 0);
  }
  // Stage 3 gathers weights for the forward and for the backward pass, the others at most once.
  CHECK(wire_of(plan_of({.ranks = 4, .stage = 3})) > wire_of(plan_of({.ranks = 4, .stage = 2})));
  // Gradients are reduced once per micro-step.
  const auto reduced = [](int micro_steps) {
    return plan_of({.ranks = 2, .stage = 2, .micro_steps = micro_steps})
        .of_rank(0)
        .wire_bytes.at("data")
        .at("reduce_scatter");
  };
  CHECK(reduced(2) == Approx(2 * reduced(1)));
}

TEST_CASE("a stage divides what it promises to divide among the ranks", "[train]") {
  const RunPlan whole = plan_of({.ranks = 4, .stage = 0});
  const auto share = [&](int stage, MemoryTag tag) {
    return static_cast<double>(bytes_of(plan_of({.ranks = 4, .stage = stage}), tag)) /
           static_cast<double>(bytes_of(whole, tag));
  };
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    CHECK(share(stage, MemoryTag::kOptimizer) == Approx(0.25).margin(0.05));
  }
  CHECK(share(1, MemoryTag::kParameters) > 0.9);
  CHECK(share(3, MemoryTag::kParameters) < 0.9);
  CHECK(bytes_of(whole, MemoryTag::kActivations) > 0);
}

TEST_CASE("a slower machine is expected to take longer, by no more than it is slower", "[train]") {
  const EngineOptions options = options_of({.ranks = 2, .stage = 2});
  const double usual =
      dry_run(options, {.data = 2}, {.flops_per_s = 1e11, .bytes_per_s = 1e10}).seconds_per_step();
  const double slow =
      dry_run(options, {.data = 2}, {.flops_per_s = 5e10, .bytes_per_s = 5e9}).seconds_per_step();
  CHECK(slow == Approx(2 * usual));
  const double narrow =
      dry_run(options, {.data = 2}, {.flops_per_s = 1e11, .bytes_per_s = 5e9}).seconds_per_step();
  CHECK(narrow > usual);
  CHECK(narrow <= Approx(2 * usual));
}

TEST_CASE("threads add up, and half the bits are twice the speed", "[train]") {
  const DeviceCeilings one = cpu_ceilings(1, DType::kF32);
  const DeviceCeilings eight = cpu_ceilings(8, DType::kF32);
  CHECK(eight.flops_per_s == Approx(8 * one.flops_per_s));
  CHECK(eight.bytes_per_s == Approx(8 * one.bytes_per_s));
  CHECK(cpu_ceilings(1, DType::kBF16).flops_per_s == Approx(2 * one.flops_per_s));
}

TEST_CASE("a plan for GPUs counts what their host memory is pinned for", "[train]") {
  if (!kernels::has_cuda_halves()) return;  // as `dslaunch plan --device cuda` says
  const EngineOptions options = options_of({.ranks = 2, .stage = 2});
  DeviceCeilings gpus = cuda_ceilings(DType::kF32);
  const RunPlan bare = dry_run(options, {.data = 2}, gpus);
  gpus.pinned_beside = 1000;
  const RunPlan plan = dry_run(options, {.data = 2}, gpus);
  const auto pinned = [](const RunPlan& of) { return nth(of.of_rank(0).memory, Tier::kPinned); };
  CHECK(pinned(plan).bytes_peak == pinned(bare).bytes_peak + 1000);
  const size_t batches = PrefetchingSource::block_bytes(text_batches(options));
  CHECK(nth(pinned(bare).tag_bytes_at_peak, MemoryTag::kScratch) >= batches);
  CHECK(plan.of_rank(0).blocks.pinned >= batches);
  CHECK(nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak > 0);
  CHECK(plan.device == Device::cuda(0));
  CHECK_THAT(plan_json(plan), Catch::Contains("\"device\": \"cuda\""));
  CHECK_THAT(plan_text(plan, options), Catch::Contains("2 ranks on a GPU each"));
}

TEST_CASE("a plan is told to a person in a few lines", "[train]") {
  EngineOptions options = options_of({.ranks = 2, .micro_steps = 3});
  CHECK(plan_text({.mesh = {.data = 2}, .classes = {written_out({0, 1})}}, options) ==
        "model         1.25 M parameters, fp32\n"
        "batch         2 x 16 tokens per rank and micro-step, 3 micro-steps, 2 ranks\n"
        "memory        3.50 MiB per rank at the peak\n"
        "  parameters      3.00 MiB\n"
        "  activations     512.00 KiB\n"
        "wire          bytes per step and rank\n"
        "  all_gather      2.00 KiB\n"
        "  reduce_scatter  100 B\n"
        "work          2.50 GFLOP per step and rank, about 0.125 s (estimate)\n");
}

TEST_CASE("a plan for programs has an entry for every rank, whose parts make its whole",
          "[train]") {
  const RunPlan plan = plan_of({.ranks = 3, .stage = 2});
  const Value json = read_config_document(plan_json(plan), "plan");
  CHECK(json.find("world_size")->as_integer() == 3);
  CHECK(json.find("parameters")->as_integer() == plan.parameters());
  CHECK(json.find("flops_per_step")->as_number() == Approx(plan.of_rank(0).flops_per_step));
  CHECK(json.find("seconds_per_step")->as_number() == Approx(plan.seconds_per_step()));
  const std::vector<Value>& ranks = json.find("ranks")->items();
  REQUIRE(ranks.size() == 3);
  for (const Value& rank : ranks) {
    int64_t parts = 0;
    for (const Member& part : rank.find("categories")->members()) parts += part.value.as_integer();
    CHECK(rank.find("categories")->members().size() == kMemoryTags);
    CHECK(parts == rank.find("device_bytes_peak")->as_integer());
    CHECK(parts == static_cast<int64_t>(nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak));
  }
  const Value* const data = json.find("communication")->find("data");
  REQUIRE(data != nullptr);
  const auto& planned = plan.of_rank(0).wire_bytes.at("data");
  CHECK(data->members().size() == planned.size());
  for (const auto& [op, bytes] : planned) CHECK(data->find(op)->as_number() == bytes);
  CHECK(json.find("seconds_from")->as_string() == "ceilings");
}

TEST_CASE("a plan tells what texts take where somebody has looked at them", "[train]") {
  RunPlan plan = plan_of({.ranks = 2});
  CHECK(read_config_document(plan_json(plan), "plan").find("texts") == nullptr);
  plan.texts = {.held_bytes = 3 << 20, .tokenizing_bytes = 32 << 20};
  const Value json = read_config_document(plan_json(plan), "plan");
  CHECK(json.find("texts")->find("held_bytes")->as_integer() == 3 << 20);
  CHECK(json.find("texts")->find("tokenizing_bytes")->as_integer() == 32 << 20);
  const EngineOptions options = options_of({.ranks = 2});
  CHECK_THAT(plan_text(plan, options),
             Catch::EndsWith("texts         at most 3.00 MiB of token ids in each rank\n"
                             "tokenizing    32.00 MiB in one process of each host, before "
                             "training\n"));
  plan.texts = TextMemory{};
  CHECK_THAT(plan_text(plan, options), !Catch::Contains("texts"));
}

TEST_CASE("ranks are alike that have the same stage of a pipeline and as much of its layers",
          "[train]") {
  using Classes = std::vector<std::vector<int>>;
  EngineOptions options;
  const auto classes_of = [&](int64_t vocabulary, const MeshSizes& sizes) {
    options.model = Gpt2Config{.n_head = 4, .n_embd = 32, .vocab_size = vocabulary};
    return rank_classes(options, sizes);
  };
  CHECK(classes_of(29, {.data = 3}) == Classes{{0, 1, 2}});
  CHECK(classes_of(29, {.data = 4, .expert = 2, .shard = 2}) == Classes{{0, 1, 2, 3}});
  const MeshSizes mesh{.pipe = 2, .data = 2, .tensor = 2};
  CHECK(classes_of(30, mesh) == Classes{{0, 1, 2, 3}, {4, 5, 6, 7}});
  CHECK(classes_of(29, mesh) == Classes{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
}

TEST_CASE("a plan of several classes tells each, and what the largest of them comes to",
          "[train]") {
  RankPlan first = written_out({0, 1}), last = written_out({2, 3});
  first.wire_bytes["pipe"]["send"] = 512;
  nth(last.memory, Tier::kHost).bytes_peak = 1 << 20;
  last.seconds_per_step = 0.25;
  last.flops_per_step = 5e9;
  last.wire_bytes["data"]["all_gather"] = 4096;
  const RunPlan plan{.mesh = {.pipe = 2, .data = 2}, .classes = {first, last}, .calibrated = true};
  CHECK(plan.parameters() == 2'500'000);
  CHECK(plan.seconds_per_step() == 0.25);
  CHECK_THROWS_WITH(plan.of_rank(4), Catch::Contains("rank 4 of 4"));
  CHECK(plan_text(plan, options_of({.ranks = 4})) ==
        "model         2.50 M parameters, fp32\n"
        "batch         3 x 16 tokens per rank and micro-step, 1 micro-steps, 4 ranks\n"
        "mesh          pipe 2 x data 2\n"
        "ranks 0 to 1\n"
        "memory        3.50 MiB per rank at the peak\n"
        "  parameters      3.00 MiB\n"
        "  activations     512.00 KiB\n"
        "wire          bytes per step and rank over data\n"
        "  all_gather      2.00 KiB\n"
        "  reduce_scatter  100 B\n"
        "wire          bytes per step and rank over pipe\n"
        "  send            512 B\n"
        "work          2.50 GFLOP per step and rank, about 0.125 s (estimate from operations "
        "measured here)\n"
        "ranks 2 to 3\n"
        "device        3.50 MiB per rank at the peak\n"
        "  parameters      3.00 MiB\n"
        "  activations     512.00 KiB\n"
        "host          1.00 MiB per rank at the peak\n"
        "wire          bytes per step and rank\n"
        "  all_gather      4.00 KiB\n"
        "  reduce_scatter  100 B\n"
        "work          5.00 GFLOP per step and rank, about 0.250 s (estimate from operations "
        "measured here)\n");
  const Value json = read_config_document(plan_json(plan), "plan");
  const std::vector<Value>& ranks = json.find("ranks")->items();
  REQUIRE(ranks.size() == 4);
  CHECK(ranks[1].find("device_bytes_peak")->as_integer() == (7 << 19));
  CHECK(ranks[1].find("host_bytes_peak")->as_integer() == 0);
  CHECK(ranks[2].find("device_bytes_peak")->as_integer() == (7 << 19));
  CHECK(ranks[2].find("host_bytes_peak")->as_integer() == 1 << 20);
  CHECK(ranks[2].find("nvme_bytes")->as_integer() == 0);
  CHECK(json.find("mesh")->find("pipe")->as_integer() == 2);
  CHECK(json.find("mesh")->find("sequence")->as_integer() == 1);
  CHECK(json.find("flops_per_step")->as_number() == 5e9);
  CHECK(json.find("communication")->find("data")->find("all_gather")->as_number() == 4096);
  CHECK(json.find("communication")->find("pipe")->find("send")->as_number() == 512);
  CHECK(json.find("seconds_from")->as_string() == "calibration");
}

TEST_CASE("a plan over a limit is refused with the rank, the need and what it is made of",
          "[train]") {
  RankPlan first = written_out({0, 1}), last = written_out({2, 3});
  nth(last.memory, Tier::kHost).bytes_peak = 1 << 20;
  nth(last.memory, Tier::kHost).tag_bytes_at_peak[2] = 1 << 20;
  const RunPlan plan{.mesh = {.pipe = 2, .data = 2}, .classes = {first, last}};
  CHECK_NOTHROW(require_within(plan, {}));
  CHECK_NOTHROW(require_within(plan, {.device = 7 << 19, .host = 1 << 20}));
  CHECK_THROWS_WITH(require_within(plan, {.device = (7 << 19) - 1}),
                    Catch::StartsWith("memory.device_limit: rank 0 needs 3670016 bytes (3.50 MiB) "
                                      "of the device's memory at the peak, 1 B more than the limit "
                                      "of 3670015 bytes: parameters 3.00 MiB, activations 512.00 "
                                      "KiB; use more ranks"));
  CHECK_THROWS_WITH(require_within(plan, {.host = 1 << 19}),
                    Catch::StartsWith("memory.host_limit: rank 2 needs 1048576 bytes (1.00 MiB) of "
                                      "the host's memory at the peak, 512.00 KiB more than the "
                                      "limit of 524288 bytes: optimizer 1.00 MiB; use more ranks"));
  CHECK_THROWS_AS(require_within(plan, {.host = 0}), ConfigError);
}

TEST_CASE("communication on a stream of its own hides behind what is computed", "[train]") {
  for (const int stage : {0, 1, 2, 3}) {
    CAPTURE(stage);
    const EngineOptions options = options_of({.ranks = 2, .stage = stage});
    const MeshSizes sizes{.data = 2};
    const DeviceCeilings both{.flops_per_s = 1e9, .bytes_per_s = 1e9};
    DeviceCeilings apart = both;
    apart.overlaps_communication = true;
    DeviceCeilings silent = both;  // peers hear everything at once
    for (const char* op : {"all_gather", "reduce_scatter", "all_reduce"}) silent.slowdown[op] = 0;
    const double in_turn = dry_run(options, sizes, both).seconds_per_step();
    const double overlapping = dry_run(options, sizes, apart).seconds_per_step();
    const double computing = dry_run(options, sizes, silent).seconds_per_step();
    CHECK(overlapping < in_turn);
    CHECK(overlapping > 0.95 * computing);  // sums of slices are made beside it, too
  }
}
