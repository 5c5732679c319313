// Streams and what comes with them: refusals at construction, scopes of memory, state, traces; and
// the errors that everything here throws.
#include "core/stream.h"

#include <string>
#include <vector>

#include "core/clock.h"
#include "core/error.h"
#include "core/tensor.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("a device says what it is", "[core]") {
  CHECK(Device::cpu().to_string() == "cpu");
  CHECK(Device::cuda(3).to_string() == "cuda:3");
  CHECK(Device::meta().to_string() == "meta");
  CHECK(Device::cuda(0) == Device::cuda(0));
  CHECK_FALSE(Device::cuda(0) == Device::cuda(1));
  CHECK_FALSE(Device::cpu() == Device::meta());
}

TEST_CASE("a stream without what its device needs is refused", "[core]") {
  HostMemory memory;
  ThreadPool pool(1);
  CHECK_THROWS_WITH(Stream({.pool = &pool}), Catch::Contains("no memory resource given"));
  CHECK_THROWS_WITH(Stream({.memory = &memory}),
                    Catch::Contains("a CPU stream needs a thread pool"));
  CHECK_THROWS_WITH(Stream({.device = Device::cuda(0), .memory = &memory, .pool = &pool}),
                    Catch::Contains("DS_WITH_CUDA"));
  CHECK_THROWS_AS(Stream({.device = Device::cuda(0), .memory = &memory, .pool = &pool}),
                  Unsupported);
  CHECK_NOTHROW(Stream({.device = Device::meta(), .memory = &memory}));
}

TEST_CASE("a scope of memory ends where it ends, also by an exception", "[core]") {
  HostMemory outer, inner, innermost;
  ThreadPool pool(1);
  Stream stream({.memory = &outer, .pool = &pool});
  {
    const MemoryScope scope(stream, inner);
    CHECK(&stream.memory() == &inner);
    {
      const MemoryScope nested(stream, innermost);
      CHECK(&stream.memory() == &innermost);
    }
    CHECK(&stream.memory() == &inner);
  }
  CHECK(&stream.memory() == &outer);
  try {
    const MemoryScope scope(stream, inner);
    throw IoError("in a scope");
  } catch (const IoError&) {
    CHECK(&stream.memory() == &outer);
  }
}

TEST_CASE("a tensor goes back to the memory it came from, whatever the stream uses now", "[core]") {
  struct Counting final : MemoryResource {
    void* allocate(size_t bytes, MemoryTag tag) override {
      ++out;
      return heap.allocate(bytes, tag);
    }
    void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
      --out;
      heap.deallocate(pointer, bytes, tag);
    }
    HostMemory heap;
    int out = 0;
  };
  Counting outer, inner;
  ThreadPool pool(1);
  Stream stream({.memory = &outer, .pool = &pool});
  Tensor tensor;
  {
    const MemoryScope scope(stream, inner);
    tensor = Tensor::empty({3}, DType::kF32, stream);
  }
  CHECK(inner.out == 1);
  CHECK(outer.out == 0);
  tensor = Tensor();
  CHECK(inner.out == 0);
}

TEST_CASE("state of a type is made once per stream and freed with it", "[core]") {
  struct Kept {
    int value = 7;
    std::shared_ptr<int> alive = std::make_shared<int>(0);
  };
  struct Other {
    int value = 1;
  };
  HostMemory memory;
  std::weak_ptr<int> watched;
  {
    Stream stream({.device = Device::meta(), .memory = &memory});
    Stream second({.device = Device::meta(), .memory = &memory});
    stream.state<Kept>().value = 8;
    CHECK(stream.state<Kept>().value == 8);
    CHECK(stream.state<Other>().value == 1);
    CHECK(second.state<Kept>().value == 7);
    watched = stream.state<Kept>().alive;
    CHECK_FALSE(watched.expired());
  }
  CHECK(watched.expired());
}

TEST_CASE("a trace hears every operation, and a stream without one is silent", "[core]") {
  struct Listing final : Trace {
    void on_op(std::string_view name, const OpCost& cost) override {
      lines.push_back(fmt::format("{} {} {}", name, cost.flops, cost.bytes));
    }
    std::vector<std::string> lines;
  };
  HostMemory memory;
  Listing trace;
  const Stream traced({.device = Device::meta(), .memory = &memory, .trace = &trace});
  traced.record("add", {.flops = 2, .bytes = 24});
  traced.record("fill", {.bytes = 4});
  CHECK(trace.lines == std::vector<std::string>{"add 2 24", "fill 0 4"});
  const Stream silent({.device = Device::meta(), .memory = &memory});
  CHECK(silent.trace() == nullptr);
  CHECK_NOTHROW(silent.record("add", {}));
}

TEST_CASE("every error carries the exit code that stands for it", "[core]") {
  const std::vector<std::pair<Error, int>> cases{
      {InternalError("m"), 70},   {UsageError("m"), 2},   {ConfigError("m"), 78},
      {Unsupported("m"), 78},     {DataError("m"), 65},   {InputMissing("m"), 66},
      {IoError("m"), 74},         {PeerIoError("m"), 74}, {CommError("m"), 1},
      {ValidationError("m"), 77}, {OutOfMemory("m"), 1}};
  for (const auto& [error, code] : cases) {
    CHECK(static_cast<int>(error.exit_code()) == code);
    CHECK(std::string(error.what()) == "m");
  }
}

TEST_CASE("a failed check says where it stands and what was wrong", "[core]") {
  const auto fail = [](int got) { DS_CHECK(got == 3, "stir: {} spoons, expected {}", got, 3); };
  CHECK_NOTHROW(fail(3));
  CHECK_THROWS_AS(fail(4), InternalError);
  CHECK_THROWS_WITH(fail(4), Catch::Contains("stir: 4 spoons, expected 3") &&
                                 Catch::Contains("stream_test.cpp:"));
}

TEST_CASE("a manual clock stands until it is moved, this machine's never goes back", "[core]") {
  ManualClock manual;
  CHECK(manual.now_ns() == 0);
  manual.advance(std::chrono::milliseconds(3));
  manual.advance(std::chrono::nanoseconds(4));
  CHECK(manual.now_ns() == 3'000'004);
  CHECK(manual.now_ns() == 3'000'004);
  const MonotonicClock machine;
  const int64_t first = machine.now_ns();
  CHECK(machine.now_ns() >= first);
  CHECK(seconds_since(std::chrono::steady_clock::now() - std::chrono::hours(2)) >= 7200);
}

}  // namespace
}  // namespace ds
