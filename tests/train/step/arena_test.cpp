// The arena of a step: same places for the same work, and nothing else than what was recorded.
#include "train/step/arena.h"

#include "core/memory/poison.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "train/step/recorder.h"

namespace ds {
namespace {

using Op = PipelineOp;
constexpr MemoryTag kTag = MemoryTag::kActivations;

PipelineInstruction of(Op op, int buffer, int micro_batch) {
  return {.op = op, .buffer = buffer, .micro_batch = micro_batch};
}

const std::vector<PipelineInstruction> kTwoAtOnce{
    of(Op::kForwardPass, 0, 0), of(Op::kForwardPass, 1, 1), of(Op::kBackwardPass, 0, 0),
    of(Op::kBackwardPass, 1, 1)};

struct Addresses {
  void* kept = nullptr;
  void* passing = nullptr;
  void* backward = nullptr;
  bool operator==(const Addresses&) const = default;
};

void forward(StepMemory& memory, int buffer, int micro_batch, Addresses& at) {
  memory.begin(of(Op::kForwardPass, buffer, micro_batch));
  at.kept = memory.allocate(100, kTag);
  at.passing = memory.allocate(50, kTag);
  memory.deallocate(at.passing, 50, kTag);
  memory.end();
}

void backward(StepMemory& memory, int buffer, int micro_batch, Addresses& at) {
  memory.begin(of(Op::kBackwardPass, buffer, micro_batch));
  at.backward = memory.allocate(70, kTag);
  memory.deallocate(at.kept, 100, kTag);
  memory.deallocate(at.backward, 70, kTag);
  memory.end();
  memory.release(buffer);
}

std::array<Addresses, 2> step(StepMemory& memory) {
  std::array<Addresses, 2> at;
  forward(memory, 0, 0, at[0]);
  forward(memory, 1, 1, at[1]);
  backward(memory, 0, 0, at[0]);
  backward(memory, 1, 1, at[1]);
  return at;
}

StepArenaPlan recorded() {
  HostMemory host;
  StepRecorder recorder(host);
  step(recorder);
  return plan_step_arena(recorder.record(), kTwoAtOnce);
}

struct Block {
  explicit Block(size_t size) : bytes(size), at(host.allocate(size, kTag)) {}
  ~Block() { host.deallocate(at, bytes, kTag); }
  HostMemory host;
  const size_t bytes;
  void* const at;
};

TEST_CASE("a step has the same addresses every time, and micro-batches their own", "[train]") {
  const StepArenaPlan plan = recorded();
  REQUIRE(plan.bytes_total() == 128 + 2 * 128);
  const Block block(plan.bytes_total());
  StepArena arena(plan, block.at);
  const auto first = step(arena);
  CHECK(first[0].kept != first[1].kept);
  CHECK(first[0].passing == first[1].passing);
  CHECK(step(arena) == first);
}

TEST_CASE("what a micro-batch keeps is live until its end, in its own room", "[train]") {
  const StepArenaPlan plan = recorded();
  const Block block(plan.bytes_total());
  StepArena arena(plan, block.at);
  std::array<Addresses, 2> at;
  forward(arena, 0, 0, at[0]);
  forward(arena, 1, 1, at[1]);
  CHECK_FALSE(is_poisoned(at[0].kept));
  CHECK(is_poisoned(at[0].passing) == kCanPoison);
  backward(arena, 0, 0, at[0]);
  CHECK(is_poisoned(at[0].kept) == kCanPoison);
  CHECK_FALSE(is_poisoned(at[1].kept));
  backward(arena, 1, 1, at[1]);
}

TEST_CASE("a step that does something else than the dry run is refused", "[train]") {
  const StepArenaPlan plan = recorded();
  const Block block(plan.bytes_total());
  StepArena arena(plan, block.at);
  CHECK_THROWS_WITH(arena.allocate(8, kTag), Catch::Contains("outside of an instruction"));
  CHECK_THROWS_WITH(arena.begin(of(Op::kBackwardWeight, 0, 0)),
                    Catch::Contains("BackwardWeight of chunk 0 was not in the dry run"));
  CHECK_THROWS_WITH(arena.begin(of(Op::kForwardPass, 0, 2)),
                    Catch::Contains("micro-batch 2 of chunk 0 was not planned"));
  CHECK_THROWS_WITH(arena.release(0), Catch::Contains("buffer 0 holds no micro-batch"));
}

TEST_CASE("an instruction allocates what the dry run did, no more and no less", "[train]") {
  const StepArenaPlan plan = recorded();
  const Block block(plan.bytes_total());
  StepArena arena(plan, block.at);
  arena.begin(of(Op::kForwardPass, 0, 0));
  CHECK_THROWS_WITH(arena.begin(of(Op::kForwardPass, 1, 1)), Catch::Contains("inside another"));
  void* const kept = arena.allocate(100, kTag);
  CHECK_THROWS_WITH(arena.end(), Catch::Contains("1 of the dry run's 2"));
  void* const passing = arena.allocate(50, kTag);
  CHECK_THROWS_WITH(arena.allocate(50, kTag), Catch::Contains("one allocation too many"));
  CHECK_THROWS_WITH(arena.end(), Catch::Contains("1 live allocations"));
  arena.deallocate(passing, 50, kTag);
  arena.end();
  CHECK_THROWS_WITH(arena.release(0), Catch::Contains("1 live allocations"));
  arena.deallocate(kept, 100, kTag);
  CHECK_NOTHROW(arena.release(0));
}

TEST_CASE("a recorder hears of one instruction at a time", "[train]") {
  HostMemory host;
  StepRecorder recorder(host);
  CHECK_THROWS_WITH(recorder.release(0), Catch::Contains("buffer 0 holds no micro-batch"));
  recorder.begin(of(Op::kForwardPass, 0, 0));
  CHECK_THROWS_WITH(recorder.begin(of(Op::kForwardPass, 1, 1)), Catch::Contains("inside"));
}

}  // namespace
}  // namespace ds
