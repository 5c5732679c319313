// The tape: order, sums of gradients, memory released as soon as possible, in place only when
// nobody else looks.
#include "model/pass/autograd.h"

#include "core/memory/adaptors.h"
#include "model/pass/context.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

using namespace ds;
using testing::CpuStream;

namespace {

struct Tracked {
  HostMemory host;
  MemoryAccount account;
  TrackingMemory memory{host, account};
  ThreadPool pool{1};
  Stream stream{{.device = Device::cpu(), .memory = &memory, .pool = &pool}};

  Tensor filled(float value) {
    Tensor tensor = Tensor::empty({16}, DType::kF32, stream);
    std::fill_n(tensor.data<float>(), 16, value);
    return tensor;
  }
  size_t live() const { return account.usage().bytes_now / 64; }  // tensors
};

// y = x, gradient passed through unchanged.
Var identity(Tape& tape, Tracked& t, const Var& x) {
  Tensor y = t.filled(x.value.data<float>()[0]);
  return tape
      .record("identity", {&x, 1}, {y}, [](GradientFlow& flow) { flow.give(0, flow.take(0)); })
      .front();
}

}  // namespace

TEST_CASE("closures run in reverse and each is dropped after it has run", "[model]") {
  Tracked t;
  Tape tape;
  std::vector<int> order;
  Var x = tape.watch(t.filled(1));
  for (int i = 0; i < 3; ++i) {
    Tensor kept = t.filled(2);
    x = tape.record("step", {&x, 1}, {t.filled(3)},
                    [&order, i, saved = tape.save(kept)](GradientFlow& flow) mutable {
                      order.push_back(i);
                      take(saved);
                      flow.give(0, flow.take(0));
                    })
            .front();
  }
  CHECK(t.live() == 4);  // three saved and the last value
  tape.seed(t.stream, x, t.filled(1));
  tape.backward(t.stream);
  CHECK(order == std::vector<int>{2, 1, 0});
  CHECK(tape.size() == 0);
  CHECK(t.live() == 2);  // x and the gradient of the leaf
}

TEST_CASE("gradients of a value used twice are added", "[model]") {
  Tracked t;
  Tape tape;
  const Var x = tape.watch(t.filled(1));
  const Var a = identity(tape, t, x);
  const Var b = identity(tape, t, x);
  tape.seed(t.stream, a, t.filled(2));
  tape.seed(t.stream, b, t.filled(5));
  tape.backward(t.stream);
  CHECK(tape.take_gradient(x).data<float>()[15] == 7);
}

TEST_CASE("a gradient that somebody else holds is not overwritten by a sum", "[model]") {
  Tracked t;
  Tape tape;
  const Var x = tape.watch(t.filled(1));
  const Tensor first = t.filled(2);
  const Tensor second = t.filled(5);
  tape.seed(t.stream, x, first);
  tape.seed(t.stream, x, second);
  CHECK(tape.take_gradient(x).data<float>()[0] == 7);
  CHECK(first.data<float>()[0] == 2);
  CHECK(second.data<float>()[0] == 5);
}

TEST_CASE("what no gradient reaches is skipped and constants take none", "[model]") {
  Tracked t;
  Tape tape;
  const Var constant{t.filled(1), Var::kConstant};
  bool ran = false;
  bool was_wanted = true;
  const auto backward = [&](GradientFlow& flow) {
    ran = true;
    was_wanted = flow.wanted(0);
    flow.give(0, flow.take(0));  // ignored
  };
  const Var unused = tape.record("unused", {&constant, 1}, {t.filled(1)}, backward).front();
  tape.backward(t.stream);
  CHECK_FALSE(ran);
  const Var used = tape.record("used", {&constant, 1}, {t.filled(1)}, backward).front();
  tape.seed(t.stream, used, t.filled(1));
  tape.backward(t.stream);
  CHECK(ran);
  CHECK_FALSE(was_wanted);
  CHECK_FALSE(tape.take_gradient(unused).defined());
}

TEST_CASE("a gradient of another shape than its value is refused", "[model]") {
  Tracked t;
  Tape tape;
  const Var x = tape.watch(t.filled(1));
  CHECK_THROWS_AS(tape.seed(t.stream, x, Tensor::empty({8}, DType::kF32, t.stream)), InternalError);
  CHECK_THROWS_AS(tape.take_gradient(Var{t.filled(1), Var::kConstant}), InternalError);
}

TEST_CASE("a saved tensor is taken once", "[model]") {
  Tracked t;
  Tape tape;
  Saved saved = tape.save(t.filled(1));
  CHECK(take(saved).defined());
  CHECK(t.live() == 0);
  CHECK_THROWS_AS(take(saved), InternalError);
}

TEST_CASE("the stream is labelled by what runs, in backward too", "[model]") {
  Tracked t;
  Tape tape;
  PlainStore store(t.stream, 1);
  Context context{.stream = t.stream, .store = &store, .tape = &tape};
  std::vector<std::string> seen;
  const Var x = tape.watch(t.filled(1));
  for (const char* layer : {"h.0", "h.1"}) {
    const Span span(t.stream, layer);
    seen.emplace_back(t.stream.label());
    context.record("identity", {&x, 1}, {},
                   [&](GradientFlow&) { seen.emplace_back(t.stream.label()); });
  }
  seen.emplace_back(t.stream.label());
  tape.backward(t.stream);
  seen.emplace_back(t.stream.label());
  CHECK(seen == std::vector<std::string>{"h.0", "h.1", "", "h.1 identity backward",
                                         "h.0 identity backward", ""});
}
