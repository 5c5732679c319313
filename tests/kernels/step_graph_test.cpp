// Recorded graphs: a step that is replayed has the bits of one that is done, what was given by
// value stays, and what cannot be recorded is refused and harms nobody. The CPU, which calls the
// body again, runs what does not concern recording itself.
#include "core/device/step_graph.h"

#include <cmath>
#include <cstddef>
#include <cstring>

#include "core/cuda/library_calls.h"
#include "core/cuda/memory.h"
#include "kernels/attention/attention.h"
#include "kernels/elementwise/activation.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/optimizer/update.h"
#include "kernels/reduce/reduce.h"
#include "tests/support/catch.h"
#include "tests/support/reference.h"
#include "tests/support/step_numbers.h"
#include "tests/support/test_device.h"

namespace ds::kernels {
namespace {

using namespace reference;

bool is_cpu() { return testing::test_device().device == Device::cpu(); }

// One T in host memory that a graph may copy from and to.
template <class T>
class Pinned {
 public:
  Pinned()
      : memory_(is_cpu() ? std::make_unique<HostMemory>() : make_pinned_memory(sizeof(T))),
        value_(static_cast<T*>(memory_->allocate(sizeof(T), MemoryTag::kScratch))) {
    *value_ = T{};
  }
  ~Pinned() { memory_->deallocate(value_, sizeof(T), MemoryTag::kScratch); }
  Pinned(const Pinned&) = delete;  // owns its place
  Pinned& operator=(const Pinned&) = delete;
  T& operator*() { return *value_; }
  T* operator->() { return value_; }
  T* get() { return value_; }

 private:
  std::unique_ptr<MemoryResource> memory_;
  T* value_;
};

// A micro-step and its update in small: dropout, a gradient that is added up, the norm, the clip
// factor, Adam. Its numbers come from pinned memory, its outcome goes there.
struct SmallStep {
  static constexpr int64_t kNumel = 1027;

  explicit SmallStep(Stream& on) : stream(on) {}

  void body() {
    stream.copy(inputs.get(), const_cast<StepInputs*>(&scalars.inputs()), sizeof(StepInputs));
    fill(stream, grad, 0.0F);
    stream.copy(drops.get(), const_cast<MicroInputs*>(placed.mask().inputs), sizeof(MicroInputs));
    dropout(stream, x, 0.25F, placed.mask(7), kNumel, dropped);
    accumulate(stream, dropped, grad);
    accumulate(stream, adam.master, grad);
    sum_of_squares_into(stream, grad, Write::kOverwrite, scalars.squares());
    finish_step(stream, scalars.sums(), {.max_norm = 1.0}, scalars);
    adam.grad = grad;
    adam_update(stream, adam, scalars);
    stream.copy(&scalars.outcome(), outcome.get(), sizeof(StepOutcome));
  }

  // Before step `step` begins, when all before it is done.
  void set_inputs(int step) {
    stream.synchronize();
    *inputs = {.lr = 0.1 / step,
               .beta1 = 0.9,
               .beta2 = 0.95,
               .correction1 = 1 - std::pow(0.9, step),
               .correction2 = 1 - std::pow(0.95, step),
               .step = step};
    *drops = {.dropout = Rng(3, "dropout").derive(static_cast<uint64_t>(step)),
              .first_sample = 5 * step};
  }

  std::vector<std::byte> state() {
    stream.synchronize();
    std::vector<std::byte> all = bytes_of(adam.master);
    for (const Tensor& part : {adam.exp_avg, adam.exp_avg_sq, adam.copy}) {
      const std::vector<std::byte> bytes = bytes_of(part);
      all.insert(all.end(), bytes.begin(), bytes.end());
    }
    const auto* const told = reinterpret_cast<const std::byte*>(outcome.get());
    // What follows is padding.
    const size_t bytes = offsetof(StepOutcome, found) + sizeof(StepOutcome::found);
    all.insert(all.end(), told, told + bytes);
    return all;
  }

  Stream& stream;
  StepScalars scalars{1, stream};
  Tensor x = random_tensor({kNumel}, DType::kF32, 1, stream);
  Tensor dropped = Tensor::empty({kNumel}, DType::kF32, stream);
  Tensor grad = Tensor::empty({kNumel}, DType::kF32, stream);
  AdamArgs adam{.master = random_tensor({kNumel}, DType::kF32, 2, stream),
                .exp_avg = Tensor::zeros({kNumel}, DType::kF32, stream),
                .exp_avg_sq = Tensor::zeros({kNumel}, DType::kF32, stream),
                .copy = Tensor::empty({kNumel}, DType::kBF16, stream),
                .rule = {.weight_decay = 0.1F}};
  testing::PlacedInputs placed{Rng(0, "none"), 0, stream};
  Pinned<StepInputs> inputs;
  Pinned<MicroInputs> drops;
  Pinned<StepOutcome> outcome;
};

float first_of(const Tensor& tensor) { return static_cast<float>(values_of(tensor)[0]); }

}  // namespace

TEST_CASE("a step replayed three times has the bits of three that are done", "[kernels][device]") {
  TestStream s;
  SmallStep eager(s.stream), replayed(s.stream);
  StepGraph graph;
  for (int step = 1; step <= 4; ++step) {
    eager.set_inputs(step);
    eager.body();
    replayed.set_inputs(step);
    if (step == 1) {
      replayed.body();  // the first is done without a graph
    } else {
      if (step == 2) graph.record(s.stream, [&] { replayed.body(); });
      graph.replay(s.stream);
    }
    INFO("step " << step);
    REQUIRE(eager.state() == replayed.state());
    REQUIRE(eager.outcome->norm > 0);
    REQUIRE(eager.outcome->grad_scale < 1);
    REQUIRE(eager.outcome->skip == 0);
  }
}

TEST_CASE("dropout recorded once and replayed with other numbers drops what it drops with them",
          "[kernels][device]") {
  TestStream s;
  const AttentionShape shape{2, 33, 2, 1, 16};
  const int64_t rows = shape.batch * shape.length, width = shape.heads * shape.head_dim;
  for (const DType dtype : float_dtypes()) {
    const Tensor qkv = random_tensor({rows, shape.packed()}, dtype, 1, s.stream);
    const Tensor dy = random_tensor({rows, width}, dtype, 2, s.stream);
    testing::PlacedInputs placed(Rng(1, "none"), 0, s.stream);
    Tensor y = Tensor::empty({rows, width}, dtype, s.stream);
    Tensor dropped = Tensor::empty({rows, width}, dtype, s.stream);
    Tensor sums = Tensor::empty({shape.batch, shape.heads, shape.length}, DType::kF32, s.stream);
    Tensor dqkv = Tensor::empty(qkv.shape(), dtype, s.stream);
    const auto body = [&] {
      const AttentionDropout drop{.p = 0.3F, .mask = placed.mask(4)};
      attention_forward(s.stream, {shape}, qkv, y, sums, drop);
      dropout(s.stream, y, 0.3F, placed.mask(5), shape.length * width, dropped);
      attention_backward(s.stream, {shape}, qkv, y, sums, dy, dqkv, drop);
    };
    const auto all_bytes = [&] {
      std::vector<std::vector<std::byte>> all;
      for (const Tensor& one : {y, dropped, dqkv}) all.push_back(bytes_of(one));
      return all;
    };
    body();  // what is made at first use
    StepGraph graph;
    graph.record(s.stream, body);
    std::vector<std::vector<std::byte>> last = all_bytes();
    for (const int64_t sample : {0, 1, 7}) {
      for (const uint64_t step : {3, 4}) {
        CAPTURE(name_of(dtype), sample, step);
        placed.set({.dropout = Rng(2, "dropout").derive(step), .first_sample = sample});
        body();
        const std::vector<std::vector<std::byte>> eager = all_bytes();
        for (Tensor& one : {std::ref(y), std::ref(dropped), std::ref(dqkv)}) {
          fill(s.stream, one, 0.0F);
        }
        graph.replay(s.stream);
        REQUIRE(all_bytes() == eager);
        for (size_t i = 0; i < eager.size(); ++i) REQUIRE(eager[i] != last[i]);
        last = eager;
      }
    }
  }
}

TEST_CASE("recording does nothing of the work, and each replay does all of it",
          "[kernels][device]") {
  TestStream s;
  Tensor y = Tensor::zeros({100}, DType::kF32, s.stream);
  const Tensor one = tensor_of(Values(100, 1.0), {100}, DType::kF32, s.stream);
  StepGraph graph;
  CHECK_FALSE(graph.is_recorded());
  CHECK_THROWS_WITH(graph.replay(s.stream), Catch::Contains("nothing is recorded"));
  graph.record(s.stream, [&] { accumulate(s.stream, one, y); });
  CHECK(graph.is_recorded());
  CHECK(first_of(y) == 0);
  for (int i = 0; i < 3; ++i) graph.replay(s.stream);  // one after the other
  accumulate(s.stream, one, y);
  CHECK(first_of(y) == 4);
  graph.record(s.stream, [&] { scale(s.stream, 2, y); });
  graph.replay(s.stream);
  CHECK(first_of(y) == 8);
}

TEST_CASE("a graph reads pinned memory when it runs, and values as they were recorded",
          "[kernels][device]") {
  TestStream s;
  Pinned<float> number;
  Tensor from_memory = Tensor::zeros({1}, DType::kF32, s.stream);
  Tensor by_value = Tensor::zeros({1}, DType::kF32, s.stream);
  *number = 1;
  StepGraph graph;
  graph.record(s.stream, [&] {
    s.stream.copy(number.get(), from_memory.address(), sizeof(float));
    fill(s.stream, by_value, *number);
  });
  for (const float value : {2.0F, 3.0F}) {
    *number = value;
    graph.replay(s.stream);
    CHECK(first_of(from_memory) == value);
    CHECK(first_of(by_value) == (is_cpu() ? value : 1.0F));  // stale
  }
}

TEST_CASE("streams that wait for each other inside of a recording are one graph",
          "[kernels][device]") {
  TestStream first, second;
  Stream &compute = first.stream, &peers = second.stream;
  Tensor x = Tensor::zeros({64}, DType::kF32, compute);
  Tensor sent = Tensor::zeros({64}, DType::kF32, peers);
  const Tensor one = tensor_of(Values(64, 1.0), {64}, DType::kF32, compute);
  compute.synchronize();
  peers.synchronize();
  StepGraph graph;
  graph.record(compute, [&] {
    accumulate(compute, one, x);
    peers.wait(compute.mark());
    cast(peers, x, sent);
    scale(peers, 10, sent);
    compute.wait(peers.mark());
    accumulate(compute, sent, x);
  });
  CHECK(first_of(x) == 0);
  graph.replay(compute);
  CHECK(first_of(x) == 11);
  graph.replay(compute);
  CHECK(first_of(x) == 132);
  accumulate(peers, one, sent);  // takes part no more
  CHECK(first_of(sent) == 121);
}

TEST_CASE("a wait for an event that a graph lacks shows when it is replayed", "[cuda]") {
  if (testing::test_device().device == Device::cpu() ||
      !unique_name(Device::cuda(0)).starts_with("emulated"))
    return;  // a GPU may do it right by chance
  TestStream first, second;
  Stream &compute = first.stream, &peers = second.stream;
  Tensor x = Tensor::zeros({64}, DType::kF32, compute);
  Tensor sent = Tensor::zeros({64}, DType::kF32, peers);
  const auto record = [&](StepGraph& graph, bool waits) {
    graph.record(compute, [&] {
      peers.wait(compute.mark());
      fill(compute, x, 3);
      if (waits) peers.wait(compute.mark());
      cast(peers, x, sent);
      compute.wait(peers.mark());
    });
  };
  compute.synchronize();
  peers.synchronize();
  StepGraph right, wrong;
  record(right, true);
  right.replay(compute);
  CHECK(first_of(sent) == 3);
  record(wrong, false);
  compute.fill_bytes(x.address(), 0, x.bytes());
  wrong.replay(compute);
  CHECK_THROWS_WITH(compute.synchronize(), Catch::Contains("a wait for an event is missing"));
}

namespace {

// Records a body that does something first, and what is told of it.
void refuses(Stream& stream, const std::function<void()>& body, const std::string& told) {
  StepGraph graph;
  Tensor y = Tensor::zeros({8}, DType::kF32, stream);
  INFO(told);
  CHECK_THROWS_WITH(graph.record(stream,
                                 [&] {
                                   fill(stream, y, 1);
                                   body();
                                 }),
                    Catch::Contains("graph: ") && Catch::Contains(told));
  CHECK_FALSE(graph.is_recorded());
  fill(stream, y, 2);  // the stream goes on
  CHECK(first_of(y) == 2);
  graph.record(stream, [&] { scale(stream, 2, y); });
  graph.replay(stream);
  CHECK(first_of(y) == 4);
}

}  // namespace

TEST_CASE("what cannot be recorded is refused by name, and the stream goes on",
          "[kernels][device]") {
  if (is_cpu()) return;
  TestStream s, other;
  Stream& stream = s.stream;
  float pageable = 1;
  Pinned<float> pinned;
  const Tensor place = Tensor::zeros({1}, DType::kF32, stream);
  const Event before = stream.mark();
  StepGraph inner;
  inner.record(stream, [&] { stream.fill_bytes(place.address(), 0, 4); });

  refuses(
      stream, [&] { stream.synchronize(); }, "synchronize");
  refuses(
      stream, [&] { stream.mark().wait_on_host(); }, "wait_on_host");
  refuses(
      stream, [&] { (void)stream.mark().ready(); }, "ready");
  refuses(
      stream, [&] { stream.copy(&pageable, place.address(), 4); }, "copy: host memory");
  refuses(
      stream, [&] { stream.copy(place.address(), &pageable, 4); }, "copy: host memory");
  refuses(
      stream, [&] { stream.wait(before); }, "an event from before");
  refuses(
      stream,
      [&] {
        other.stream.wait(stream.mark());
        other.stream.fill_bytes(place.address(), 0, 4);
      },
      "not waited for");
  refuses(
      stream, [&] { inner.replay(stream); }, "replay");
  refuses(
      stream, [&] { StepGraph().record(stream, [] {}); }, "recorded already");
  refuses(
      stream, [&] { StepGraph().record(other.stream, [&] { other.stream.wait(stream.mark()); }); },
      "another recording");
  refuses(
      stream, [] { throw DataError("graph: of the body"); }, "of the body");
  CHECK(pageable == 1);
  CHECK_THROWS_WITH(stream.queue().end_capture(), Catch::Contains("did not begin"));
}

TEST_CASE("a refusal inside of a recording changes nothing in it", "[kernels][device]") {
  if (is_cpu()) return;
  TestStream s;
  Tensor y = Tensor::zeros({8}, DType::kF32, s.stream);
  StepGraph graph;
  graph.record(s.stream, [&] {
    fill(s.stream, y, 5);
    CHECK_THROWS_AS(s.stream.synchronize(), InternalError);
    scale(s.stream, 2, y);
  });
  CHECK(first_of(y) == 0);
  graph.replay(s.stream);
  CHECK(first_of(y) == 10);
}

TEST_CASE("an event of a recording is no point in time, before its end and after it",
          "[kernels][device]") {
  if (is_cpu()) return;
  TestStream s, other;
  Event inside;
  StepGraph graph;
  const Event before = s.stream.mark();
  graph.record(s.stream, [&] {
    inside = s.stream.mark();
    before.wait_on_host();  // the host may wait for what is not recorded
  });
  CHECK(before.ready());
  CHECK_THROWS_WITH(inside.wait_on_host(), Catch::Contains("after replay()"));
  CHECK_THROWS_WITH(inside.ready(), Catch::Contains("after replay()"));
  CHECK_THROWS_WITH(other.stream.wait(inside), Catch::Contains("after replay()"));
  graph.replay(s.stream);
  const Event after = s.stream.mark();
  after.wait_on_host();
  CHECK(after.ready());
}

TEST_CASE("memory taken and given back inside of a recording has its place in every replay",
          "[kernels][device]") {
  TestStream s;
  Tensor total = Tensor::zeros({1}, DType::kF64, s.stream);
  const Tensor x = tensor_of(Values(5000, 2.0), {5000}, DType::kF32, s.stream);
  StepGraph graph;
  graph.record(s.stream, [&] { sum_of_squares_into(s.stream, x, Write::kAccumulate, total); });
  for (int i = 0; i < 3; ++i) graph.replay(s.stream);
  double sum = 0;
  const std::vector<std::byte> bytes = bytes_of(total);
  std::memcpy(&sum, bytes.data(), sizeof sum);
  CHECK(sum == 3 * 4 * 5000);
}

TEST_CASE("on meta a replay calls the body, which does nothing but report", "[kernels]") {
  MetaMemory memory;
  Stream meta({.device = Device::meta(), .memory = &memory});
  StepGraph graph;
  int calls = 0;
  graph.record(meta, [&] { ++calls; });
  CHECK(calls == 0);
  graph.replay(meta);
  graph.replay(meta);
  CHECK(calls == 2);
  TestStream s;
  if (is_cpu()) CHECK_THROWS_WITH(graph.replay(s.stream), Catch::Contains("recorded for meta"));
  CHECK_THROWS_WITH(graph.record(meta, nullptr), Catch::Contains("no body"));
}

}  // namespace ds::kernels
