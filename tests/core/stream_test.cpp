// Streams and what comes with them: refusals at construction, scopes of memory, state, traces; and
// the errors that everything here throws.
#include "core/device/stream.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/device/dispatch.h"
#include "core/device/tensor.h"
#include "core/status/error.h"
#include "core/tasks/clock.h"
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
  // Whatever the build has of CUDA, no machine has so many.
  const Device none = Device::cuda(99);
  CHECK_THROWS_AS(Stream({.device = none, .memory = &memory, .pool = &pool}), Unsupported);
  CHECK_THROWS_WITH(Stream({.device = none, .memory = &memory, .pool = &pool}),
                    Catch::Contains("cuda:99"));
  CHECK_NOTHROW(Stream({.device = Device::meta(), .memory = &memory}));
}

// Work takes as many seconds as it has floating-point operations.
class Clockwork final : public Trace {
 public:
  void on_op(std::string_view /*name*/, const OpCost& cost) override { now_ += cost.flops; }
  double now() const override { return now_; }
  void not_before(double seconds) override { now_ = std::max(now_, seconds); }

 private:
  double now_ = 0;
};

TEST_CASE("a stream that waits begins no earlier than the point it waits for", "[core]") {
  HostMemory memory;
  Clockwork computing, sending;
  Stream compute({.device = Device::meta(), .memory = &memory, .trace = &computing});
  Stream comm({.device = Device::meta(), .memory = &memory, .trace = &sending});
  compute.report("product", {.flops = 3});
  const Event ready = compute.mark();
  compute.report("product", {.flops = 4});  // nobody waits for this one
  comm.wait(ready);
  comm.report("all_reduce", {.flops = 2});
  CHECK(comm.mark().ready());
  CHECK(sending.now() == 5);
  comm.wait(Event());
  CHECK(sending.now() == 5);
  compute.wait(comm.mark());  // long reached
  CHECK(computing.now() == 7);
}

TEST_CASE("a stream copies and fills bytes, and on meta only says so", "[core]") {
  HostMemory memory;
  ThreadPool pool(1);
  Stream stream({.memory = &memory, .pool = &pool});
  std::vector<char> from{'a', 'b', 'c'}, to(3);
  stream.copy(from.data(), to.data(), 3);
  CHECK(to == from);
  stream.fill_bytes(to.data() + 1, 'x', 2);
  CHECK(to == std::vector<char>{'a', 'x', 'x'});
  stream.copy(nullptr, nullptr, 0);

  MetaMemory nothing;
  Stream meta({.device = Device::meta(), .memory = &nothing});
  CHECK_NOTHROW(Tensor::zeros({1 << 20}, DType::kF32, meta));
  meta.copy(from.data(), to.data(), 3);
  CHECK(to == std::vector<char>{'a', 'x', 'x'});
}

TEST_CASE("memory behind a gate is open while a kernel, a copy or a fill runs", "[core]") {
  class CountingGate final : public AccessGate {
   public:
    void open() noexcept override { ++opened, ++depth; }
    void close() noexcept override { --depth; }
    int opened = 0;
    int depth = 0;
  } gate;
  HostMemory memory;
  ThreadPool pool(1);
  Stream stream({.memory = &memory, .pool = &pool, .gate = &gate});
  int depth_in_kernel = 0;
  const auto no_cuda = [](Cuda) {};
  on_device(
      stream, [&](Cpu) { depth_in_kernel = gate.depth; }, no_cuda);
  CHECK(depth_in_kernel == 1);
  CHECK(gate.opened == 1);
  int from = 1, to = 0;
  stream.copy(&from, &to, sizeof to);
  CHECK(gate.opened == 2);
  stream.fill_bytes(&to, 0, sizeof to);
  CHECK(gate.opened == 3);
  const auto fails = [](Cpu) { throw InternalError("kernel"); };
  CHECK_THROWS_AS(on_device(stream, fails, no_cuda), InternalError);
  CHECK(gate.opened == 4);
  CHECK(gate.depth == 0);
}

TEST_CASE("the host is refused memory that it cannot read", "[core]") {
  float number = 0;
  const Tensor there = Tensor::borrow(&number, {1}, DType::kF32, Device::cuda(1));
  CHECK_THROWS_WITH(there.data<float>(), Catch::Contains("the host cannot read memory of cuda:1"));
  CHECK_THROWS_WITH(there.narrow(0, 1).raw(), Catch::Contains("cuda:1"));
  CHECK(there.address() == &number);
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
  traced.report("add", {.flops = 2, .bytes = 24});
  traced.report("fill", {.bytes = 4});
  CHECK(trace.lines == std::vector<std::string>{"add 2 24", "fill 0 4"});
  const Stream silent({.device = Device::meta(), .memory = &memory});
  CHECK(silent.trace() == nullptr);
  CHECK_NOTHROW(silent.report("add", {}));
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
