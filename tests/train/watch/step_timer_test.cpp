#include "train/measure/step_timer.h"

#include <thread>

#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "train/watch/step_breakdown.h"

namespace ds {
namespace {

using std::chrono::milliseconds;

constexpr PipelineInstruction kLoad{
    .op = PipelineOp::kLoadMicroBatch, .buffer = 0, .micro_batch = 0};
constexpr PipelineInstruction kForward{
    .op = PipelineOp::kForwardPass, .buffer = 0, .micro_batch = 0};
constexpr PipelineInstruction kBackward{
    .op = PipelineOp::kBackwardPass, .buffer = 0, .micro_batch = 0};
constexpr PipelineInstruction kUpdate{.op = PipelineOp::kOptimizerStep};

void call(CallQueue& calls, CommOp op, milliseconds time) {
  const StreamMoment begin = StreamMoment::of_host();
  std::this_thread::sleep_for(time);
  calls.on_call({.axis = "data",
                 .op = op,
                 .bytes = 1024,
                 .ranks = 2,
                 .label = "transformer.h.1",
                 .begin = begin,
                 .end = StreamMoment::of_host()});
}

void execute(StepTimer& timer, int64_t done, const PipelineInstruction& instruction,
             const std::function<void()>& work) {
  timer.before_instruction(done, instruction);
  work();
  timer.after_instruction(done, instruction);
}

void rest(milliseconds time) { std::this_thread::sleep_for(time); }

}  // namespace

TEST_CASE("a step's time is that of its parts, and reductions are those of gradients", "[train]") {
  testing::CpuStream cpu;
  CallQueue calls;
  StepTimer timer(cpu.stream, calls);
  timer.need();
  CHECK(calls.is_on());
  call(calls, CommOp::kBarrier, milliseconds(1));  // between two steps
  execute(timer, 4, kLoad, [] { rest(milliseconds(2)); });
  execute(timer, 4, kForward, [&] { call(calls, CommOp::kAllGather, milliseconds(4)); });
  execute(timer, 4, kBackward, [&] {
    rest(milliseconds(5));
    call(calls, CommOp::kReduceScatter, milliseconds(3));
  });
  execute(timer, 4, kUpdate, [] { rest(milliseconds(2)); });
  timer.after_step({.step = 5, .seconds = 0.02, .metrics = {}});
  REQUIRE(timer.newest());
  const MeasuredStep& step = *timer.newest();
  CHECK(step.step == 5);
  REQUIRE(step.parts.size() == 4);
  CHECK(step.between.size() == 1);
  REQUIRE(step.parts[1].calls.size() == 1);
  CHECK(step.parts[1].calls[0].label == "transformer.h.1");
  CHECK(step.parts[2].begin_s >= step.parts[1].begin_s + step.parts[1].seconds);
  const StepTimes times = times_of(step);
  CHECK(times.micro_steps == 1);
  CHECK(times.forward >= 0.004);
  CHECK(times.reduction >= 0.003);
  CHECK(times.reduction < 0.005 + times.reduction - 0.003 + 1e-9);  // the gather is not in it
  CHECK(times.backward_inner() >= 0.005);
  CHECK(times.sum() == Approx(times.load + times.forward + times.backward + times.update));
}

TEST_CASE("a timer that nobody needs measures nothing", "[train]") {
  testing::CpuStream cpu;
  CallQueue calls;
  StepTimer timer(cpu.stream, calls);
  execute(timer, 0, kForward, [] {});
  timer.after_step({.step = 1, .seconds = 1, .metrics = {}});
  CHECK(!timer.newest());
  CHECK(!calls.is_on());
}

TEST_CASE("results that come late belong to the steps that they were measured in", "[train]") {
  testing::CpuStream cpu;
  CallQueue calls;
  StepTimer timer(cpu.stream, calls);
  timer.need();
  for (const int64_t done : {0, 1, 2}) execute(timer, done, kForward, [] {});
  timer.after_step({.step = 2, .seconds = 1, .metrics = {}});
  REQUIRE(timer.newest());
  CHECK(timer.newest()->step == 2);
  timer.after_step({.step = 3, .seconds = 1, .metrics = {}});
  CHECK(timer.newest()->step == 3);
}

TEST_CASE("the lines of a breakdown", "[train]") {
  const StepTimes times{.load = 0.0005,
                        .forward = 0.004,
                        .backward = 0.008,
                        .reduction = 0.002,
                        .update = 0.001,
                        .micro_steps = 2};
  const Breakdown one = breakdown_of(times, 0.0145);
  CHECK(breakdown_line(one) ==
        "time (ms) | fwd: 4.00 | bwd: 8.00 | bwd_inner: 6.00 | bwd_allreduce: 2.00 | step: 1.00 | "
        "load: 0.50 | rest: 1.00");
  CHECK(micro_step_line(one, 2) ==
        "time (ms) | fwd_microstep: 2.00 | bwd_microstep: 4.00 | bwd_inner_microstep: 3.00 | "
        "bwd_allreduce_microstep: 1.00 | step_microstep: 0.50");
  Breakdown slow = one;
  slow[0] = 0.006;
  const std::string ranks = ranks_line({one, slow}, {"node-1", "node-2"});
  CHECK(ranks.find("fwd: 4.00/5.00/6.00 rank 1 on node-2") != std::string::npos);
  CHECK(ranks.find("load: 0.50/0.50/0.50 rank") != std::string::npos);
}

TEST_CASE("the line of memory says what it is for", "[train]") {
  TierUsage usage{};
  MemoryUsage& host = nth(usage, Tier::kHost);
  host.bytes_now = 3 << 20;
  host.bytes_peak = 5 << 20;
  nth(host.tag_bytes_now, MemoryTag::kParameters) = 3 << 20;
  CHECK(memory_line(usage) == "memory | host: now 3 MiB, most 5 MiB (parameters 3 MiB)");
  TierPeaks small{}, large{};
  nth(small, Tier::kHost) = 2 << 20;
  nth(large, Tier::kHost) = 4 << 20;
  CHECK(memory_ranks_line({small, large, small, small}, {"a", "b", "c", "d"}) ==
        "ranks, least/mean/most memory | host: 2 MiB/2.5 MiB/4 MiB rank 1 on b");
}

}  // namespace ds
