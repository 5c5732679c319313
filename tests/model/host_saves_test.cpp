// Activations that wait on the host: the same bits, gone from the device while they are not needed,
// one copy of what two closures save, and nothing copied back that never left.
#include "model/activations/host_saves.h"

#include "kernels/elementwise/elementwise.h"
#include "model/pass/autograd.h"
#include "tests/support/catch.h"
#include "tests/support/test_stream.h"

using namespace ds;
using testing::floats_of;

namespace {

constexpr int64_t kNumel = 64;
constexpr size_t kBytes = kNumel * sizeof(float);

// A device whose books are kept, and the host beside it.
struct Tiers {
  testing::TestStream own;
  MemoryAccount device, host;
  TrackingMemory device_memory{own.stream.memory(), device};
  HostMemory heap;
  TrackingMemory host_memory{heap, host};
  MemoryScope scope{own.stream, device_memory};
  HostSaves saves{own.stream, own.stream, host_memory};

  Stream& stream() { return own.stream; }
  Tensor filled(float value) {
    Tensor tensor = Tensor::empty({kNumel}, DType::kF32, stream());
    kernels::fill(stream(), tensor, value);
    return tensor;
  }
  size_t on_device() const { return device.usage().bytes_now / kBytes; }
  size_t on_host() const { return host.usage().bytes_now / kBytes; }
};

// Saves `value` and hands its first element on to `seen` when it runs.
Var step(Tape& tape, Tiers& t, const Var& x, const Tensor& value, std::vector<float>& seen) {
  Tensor y = t.filled(0);
  auto backward = [&seen, saved = tape.save(value)](GradientFlow& flow) mutable {
    seen.push_back(floats_of(take(saved)).front());
    flow.give(0, flow.take(0));
  };
  return tape.record("step", {&x, 1}, {std::move(y)}, std::move(backward)).front();
}

}  // namespace

TEST_CASE("what closures save is on the host until they run, and comes back with its bits",
          "[model][device]") {
  Tiers t;
  Tape tape(&t.saves);
  std::vector<float> seen;
  Var x = tape.watch(t.filled(1));
  for (int i = 0; i < 5; ++i) x = step(tape, t, x, t.filled(static_cast<float>(i)), seen);
  CHECK(t.on_host() == 5);
  CHECK(t.on_device() == 2);  // the last value, and what the last closure saved
  tape.seed(t.stream(), x, t.filled(1));
  tape.backward(t.stream());
  CHECK(seen == std::vector<float>{4, 3, 2, 1, 0});
  CHECK(t.device.usage().bytes_peak <= 5 * kBytes);
}

TEST_CASE("of passes that are put aside nothing stays on the device, and each comes back",
          "[model][device]") {
  Tiers t;
  Tape first(&t.saves), second(&t.saves);
  std::vector<float> seen;
  Var x = first.watch(t.filled(1)), y = second.watch(t.filled(1));
  for (int i = 0; i < 3; ++i) x = step(first, t, x, t.filled(static_cast<float>(i)), seen);
  first.put_aside();
  CHECK(t.on_device() == 2);  // x, and y before its first step
  for (int i = 3; i < 6; ++i) y = step(second, t, y, t.filled(static_cast<float>(i)), seen);
  second.put_aside();
  CHECK(t.on_device() == 2);
  CHECK(t.on_host() == 6);
  for (const auto& [tape, end] : {std::pair{&first, &x}, std::pair{&second, &y}}) {
    tape->seed(t.stream(), *end, t.filled(1));
    tape->backward(t.stream());
  }
  CHECK(seen == std::vector<float>{2, 1, 0, 5, 4, 3});
}

TEST_CASE("a tensor that two closures save has one copy", "[model][device]") {
  Tiers t;
  Tape tape(&t.saves);
  std::vector<float> seen;
  Var x = tape.watch(t.filled(1));
  {
    const Tensor shared = t.filled(7);
    x = step(tape, t, x, shared, seen);
    x = step(tape, t, x, shared, seen);
  }
  x = step(tape, t, x, t.filled(8), seen);
  CHECK(t.on_host() == 2);
  CHECK(t.on_device() == 2);  // of those saved, 8
  tape.seed(t.stream(), x, t.filled(1));
  tape.backward(t.stream());
  CHECK(seen == std::vector<float>{8, 7, 7});
}

TEST_CASE("what is saved and never needed leaves nothing on the device", "[model][device]") {
  Tiers t;
  {
    Tape tape(&t.saves);
    std::vector<float> seen;
    Var x = tape.watch(t.filled(1));
    for (int i = 0; i < 3; ++i) x = step(tape, t, x, t.filled(2), seen);
    Saved nothing = tape.save(Tensor());
    CHECK_FALSE(take(nothing).defined());
  }
  CHECK(t.on_device() == 0);
}

TEST_CASE("blocks of the host are used again by the next micro-batch", "[model]") {
  Tiers t;
  for (int round = 0; round < 3; ++round) {
    Tape tape(&t.saves);
    std::vector<float> seen;
    Var x = tape.watch(t.filled(1));
    for (int i = 0; i < 4; ++i) x = step(tape, t, x, t.filled(2), seen);
    tape.seed(t.stream(), x, t.filled(1));
    tape.backward(t.stream());
  }
  CHECK(t.on_host() == 4);
  CHECK(t.host.usage().bytes_peak == 4 * kBytes);
}
