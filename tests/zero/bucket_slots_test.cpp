// Places of buckets: on demand and recorded without a plan, in one block with one; who gets bytes
// again waits for their last use.
#include "zero/layout/bucket_slots.h"

#include <algorithm>

#include "tests/support/catch.h"

namespace ds {
namespace {

class Clock final : public Trace {
 public:
  void on_op(std::string_view /*name*/, const OpCost& /*cost*/) override {}
  double now() const override { return seconds; }
  void not_before(double at) override { seconds = std::max(seconds, at); }
  double seconds = 0;
};

class CountingMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override {
    ++calls;
    return inner_.allocate(bytes, tag);
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    ++calls;
    inner_.deallocate(pointer, bytes, tag);
  }
  int calls = 0;

 private:
  MetaMemory inner_;
};

// Two buckets in turn, then a smaller one beside the second: a round of the tests.
template <class Between>
void round_of(BucketSlots& slots, Stream& taker, Stream& user, const Between& between) {
  slots.begin(BucketRound::kMicroStep);
  Tensor first = slots.take(100, DType::kF32, taker);
  slots.give_back(first, user);
  CHECK_FALSE(first.defined());
  between();
  Tensor second = slots.take(100, DType::kF32, taker);
  Tensor beside = slots.take(10, DType::kF32, taker);
  CHECK(second.address() != beside.address());
  slots.give_back(beside, taker);
  slots.give_back(second, taker);
  slots.end();
}

struct Streams {
  CountingMemory memory{};
  Clock taker_clock{}, user_clock{};
  Stream taker{{.device = Device::meta(), .memory = &memory, .trace = &taker_clock}};
  Stream user{{.device = Device::meta(), .memory = &memory, .trace = &user_clock}};
  BucketSlots slots{memory};

  ArenaPlan record() {
    round_of(slots, taker, user, [] {});
    return plan_arena(slots.recorded());
  }
};

TEST_CASE("without a plan buckets are allocated on demand, and a round is recorded", "[zero]") {
  Streams s;
  Tensor outside = s.slots.take(7, DType::kF32, s.taker);
  const ArenaPlan plan = s.record();
  CHECK(s.memory.calls == 7);
  s.slots.give_back(outside, s.taker);
  CHECK(s.memory.calls == 8);
  REQUIRE(plan.allocations.size() == 3);
  CHECK(plan.allocations[0].bytes == 400);
  CHECK(plan.allocations[0].end <= plan.allocations[1].begin);
  CHECK(plan.allocations[2].end < plan.allocations[1].end);
  CHECK(plan.bytes_total == 448 + 64);
}

TEST_CASE("with a plan a round allocates nothing", "[zero]") {
  Streams s;
  s.slots.follow({.micro_step = s.record(), .evaluation = {}}, s.taker);
  const int calls = s.memory.calls;
  for (int i = 0; i < 3; ++i) round_of(s.slots, s.taker, s.user, [] {});
  CHECK(s.memory.calls == calls);
}

TEST_CASE("who gets bytes again waits for their last use, on whatever stream", "[zero]") {
  Streams s;
  s.slots.follow({.micro_step = s.record(), .evaluation = {}}, s.taker);
  s.user_clock.seconds = 5;
  round_of(s.slots, s.taker, s.user, [&] { CHECK(s.taker_clock.seconds == 0); });
  CHECK(s.taker_clock.seconds == 5);
}

TEST_CASE("an evaluation waits for the micro-step that had its bytes", "[zero]") {
  Streams s;
  const ArenaPlan plan = s.record();
  s.slots.follow({.micro_step = plan, .evaluation = plan}, s.taker);
  s.taker_clock.seconds = 7;
  round_of(s.slots, s.taker, s.user, [] {});
  s.slots.begin(BucketRound::kEvaluation);
  Tensor bucket = s.slots.take(100, DType::kF32, s.user);
  CHECK(s.user_clock.seconds == 7);
  s.slots.give_back(bucket, s.user);
}

TEST_CASE("a round that differs from the dry run's is an error", "[zero]") {
  Streams s;
  s.slots.follow({.micro_step = s.record(), .evaluation = {}}, s.taker);
  s.slots.begin(BucketRound::kMicroStep);
  CHECK_THROWS_WITH(s.slots.take(99, DType::kF32, s.taker), Catch::Contains("asks 396 bytes"));
  Tensor first = s.slots.take(100, DType::kF32, s.taker);
  CHECK_THROWS_WITH(s.slots.end(), Catch::Contains("1 of the dry run's 3 buckets were taken, 1"));
  CHECK_THROWS_WITH(s.slots.begin(BucketRound::kMicroStep), Catch::Contains("1 live"));
  CHECK_THROWS_WITH(s.slots.follow({}, s.taker), Catch::Contains("a second plan"));
}

// As where buckets are kept longer than the dry run kept them.
TEST_CASE("bytes of a bucket that is out are given to nobody", "[zero]") {
  Streams s;
  s.slots.follow({.micro_step = s.record(), .evaluation = {}}, s.taker);
  s.slots.begin(BucketRound::kMicroStep);
  Tensor first = s.slots.take(100, DType::kF32, s.taker);
  CHECK_THROWS_WITH(s.slots.take(100, DType::kF32, s.taker), Catch::Contains("which is out"));
  s.slots.give_back(first, s.taker);
  CHECK_NOTHROW(s.slots.take(100, DType::kF32, s.taker));
}

}  // namespace
}  // namespace ds
