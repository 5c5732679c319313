// Ceilings, clocks and the stopwatch, by numbers worked out by hand.
#include "train/plan/costs.h"

#include <thread>

#include "core/device/stream.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"
#include "train/plan/calibration.h"
#include "train/plan/dry_run.h"

namespace ds {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

TEST_CASE("an operation takes as long as the nearer ceiling says, and what it stays below it",
          "[train]") {
  const DeviceCeilings ceilings{
      .flops_per_s = 100, .bytes_per_s = 10, .slowdown = {{"softmax", 3}, {"copy", 0.5}}};
  CHECK(ceilings.seconds_of("matmul", {.flops = 200, .bytes = 1}) == 2);
  CHECK(ceilings.seconds_of("matmul", {.flops = 200, .bytes = 50}) == 5);
  CHECK(ceilings.seconds_of("softmax", {.flops = 200, .bytes = 50}) == 15);
  CHECK(ceilings.seconds_of("copy", {.flops = 0, .bytes = 50}) == 2.5);
  CHECK(ceilings.seconds_of("nothing", {}) == 0);
}

// Compute makes three gradients, the last after 9 s; each is reduced for 4 s on a stream of its
// own, which begins with the first at 3 s and is then never idle: 3 + 3 * 4. One stream for both
// would take 9 + 12.
TEST_CASE("streams that wait for each other take what the longer way takes", "[train]") {
  const DeviceCeilings ceilings{.flops_per_s = 1, .bytes_per_s = 1};
  CostClock computing(ceilings), sending(ceilings);
  MetaMemory memory;
  Stream compute({.device = Device::meta(), .memory = &memory, .trace = &computing});
  Stream comm({.device = Device::meta(), .memory = &memory, .trace = &sending});
  for (int bucket = 0; bucket < 3; ++bucket) {
    compute.report("matmul", {.flops = 3});
    comm.wait(compute.mark());
    comm.report("reduce_scatter", {.flops = 0, .bytes = 4});
  }
  compute.wait(comm.mark());
  CHECK(computing.now() == 15);
  compute.report("adam_update", {.flops = 0, .bytes = 2});
  CHECK(computing.now() == 17);
  CHECK(computing.flops() == 9);
  CHECK(sending.flops() == 0);
}

TEST_CASE("a stopwatch gives an operation the time until the next one begins", "[train]") {
  ManualClock clock;
  Stopwatch watch({.flops_per_s = 100, .bytes_per_s = 10}, clock);
  watch.on_op("warming", {.flops = 100, .bytes = 0});
  clock.advance(std::chrono::nanoseconds(7 * kSecond));
  watch.begin();
  clock.advance(std::chrono::nanoseconds(5 * kSecond));  // before the first operation
  watch.on_op("matmul", {.flops = 200, .bytes = 0});
  clock.advance(std::chrono::nanoseconds(3 * kSecond));
  watch.on_op("add", {.flops = 0, .bytes = 10});
  clock.advance(std::chrono::nanoseconds(4 * kSecond));
  watch.on_op("matmul", {.flops = 100, .bytes = 0});
  clock.advance(std::chrono::nanoseconds(6 * kSecond));
  watch.on_op("free", {});
  const DeviceCeilings measured = watch.end();
  CHECK(measured.flops_per_s == 100);
  CHECK(measured.slowdown.size() == 2);  // what costs nothing has no speed
  CHECK(measured.slowdown.at("matmul") == 3);
  CHECK(measured.slowdown.at("add") == 4);
  CHECK(measured.seconds_of("matmul", {.flops = 1000, .bytes = 0}) == 30);
}

TEST_CASE("the job that is measured has the operations of the other, and less of them", "[train]") {
  EngineOptions options = testing::options_of({});
  options.model = Gpt2Config{.n_layer = 48, .n_head = 25, .n_embd = 1600};
  options.length = 1024;
  options.micro_batch = 8;
  options.zero.placement.policy = zero_policy(3);
  const EngineOptions less = reduced_for_calibration(options);
  const auto& gpt2 = std::get<Gpt2Config>(less.model);
  CHECK(gpt2.n_layer == 1);
  CHECK(gpt2.n_embd / gpt2.n_head == 64);
  CHECK(gpt2.n_embd <= 1024);
  CHECK(gpt2.n_embd > 900);
  CHECK(dimensions(gpt2).inner == 4 * gpt2.n_embd);
  CHECK(less.micro_batch == 1);
  CHECK(less.length == 512);
  CHECK(reduced_for_calibration(
            testing::options_of({.stage = 2, .state = Tier::kHost, .zenflow = ZenflowOptions{}}))
            .zero.state.zenflow == std::nullopt);

  options.model = LlamaConfig{.num_attention_heads = 32, .num_key_value_heads = 8};
  options.length = 128;
  const EngineOptions llama_job = reduced_for_calibration(options);
  const auto& llama = std::get<LlamaConfig>(llama_job.model);
  CHECK(llama.num_hidden_layers == 1);
  CHECK(llama.head_dim == 128);
  CHECK(llama.num_attention_heads == 4 * llama.num_key_value_heads.value());
  CHECK(llama.hidden_size == 1024);
  CHECK(llama.intermediate_size == 11008 / 4);
  CHECK(llama_job.micro_batch == 4);

  options = testing::options_of({});
  const auto& small = std::get<Gpt2Config>(reduced_for_calibration(options).model);
  CHECK(small.n_embd == std::get<Gpt2Config>(options.model).n_embd);
  CHECK(small.vocab_size == std::get<Gpt2Config>(options.model).vocab_size);
}

TEST_CASE("as many ranks are measured beside each other as have cores here", "[train]") {
  const int cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  CHECK(ranks_here(1, 1).ranks == 1);
  CHECK(ranks_here(1000, 1).ranks == cores);
  CHECK(ranks_here(1000, 2 * cores).ranks == 1);
  CHECK(ranks_here(3, 2).threads == 2);
}

TEST_CASE("a calibration knows the operations of a step", "[train]") {
  const EngineOptions options = testing::options_of({.dtype = DType::kBF16});
  const DeviceCeilings measured = calibrate(options, {.ranks = 2});
  for (const char* op : {"matmul", "adam_update", "softmax_cross_entropy", "attention_part_forward",
                         "attention_delta", "attention_part_backward"}) {
    INFO(op);
    REQUIRE(measured.slowdown.contains(op));
    CHECK(measured.slowdown.at(op) > 0);
  }
  CHECK(dry_run(options, {.data = 1}, measured).seconds_per_step() > 0);
}

}  // namespace
}  // namespace ds
