// A layer that takes its rows in tiles against the same layer at once: what it gives, the gradients
// of its weights and of its input, what is leased, and when gradients are ready.
#include "model/activations/tiles.h"

#include <cstring>
#include <map>

#include "model/functions/functions.h"
#include "model/modules/module.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/test_stream.h"

namespace ds {
namespace {

using testing::random_tensor;
using testing::TestStream;
using Floats = std::vector<float>;

constexpr int64_t kWidth = 6, kInner = 10;

Floats floats_of(const Tensor& tensor) {
  const std::vector<std::byte> bytes = testing::bytes_of(tensor);
  Floats floats(bytes.size() / sizeof(float));
  std::memcpy(floats.data(), bytes.data(), bytes.size());
  return floats;
}

// Counts what passes it.
class CountingStore final : public ParameterStore {
 public:
  explicit CountingStore(PlainStore& store) : store_(store) {}
  ParamId add(ParamSpec spec) override { return store_.add(std::move(spec)); }
  void seal() override { store_.seal(); }
  int count() const override { return store_.count(); }
  const ParamSpec& spec(ParamId id) const override { return store_.spec(id); }
  void expect_uses(ParamId id, int uses) override { store_.expect_uses(id, uses); }
  Lease acquire(ParamId id) override {
    ++leases;
    return store_.acquire(id);
  }
  GradSlot grad_slot(ParamId id) override {
    ++slots;
    return store_.grad_slot(id);
  }
  void grad_ready(ParamId id) override {
    ready.push_back(id);
    store_.grad_ready(id);
  }

  int leases = 0, slots = 0;
  std::vector<ParamId> ready;

 private:
  PlainStore& store_;
};

struct Outcome {
  Floats y, dx;
  std::map<ParamId, Floats> gradients;
  int leases = 0, slots = 0;
  std::vector<ParamId> ready;
};

MlpSpec mlp_of(ParameterStore& store, bool gated) {
  const BuildContext build{.store = store, .path = "mlp"};
  const auto layer = [&](const char* name, int64_t in, int64_t out) {
    return linear_part(build.child(name), in, out, WeightLayout::kOutIn, Bias::kZeros, 0.5);
  };
  MlpSpec spec;
  spec.up = {.parts = {layer("up", kWidth, kInner)}, .in = kWidth};
  if (gated) spec.up.parts.push_back(layer("gate", kWidth, kInner));
  spec.down = {.parts = {layer("down", kInner, kWidth)}, .in = kInner};
  spec.has_gate = gated;
  spec.activation = gated ? kernels::Activation::kSilu : kernels::Activation::kGeluTanh;
  return spec;
}

Outcome run(TestStream& own, int64_t rows, int64_t tiles, bool gated, bool wants_dx = true) {
  PlainStore plain(own.stream, 3);
  CountingStore store(plain);
  const MlpSpec spec = mlp_of(store, gated);
  store.seal();
  plain.clear_gradients();
  Tape tape;
  Context context{
      .stream = own.stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
  context.pass.mlp_tiles = tiles;
  const Tensor values = random_tensor(own.stream, {rows, kWidth}, 1);
  const Var x = wants_dx ? tape.watch(values) : Var{values, Var::kConstant};
  Outcome outcome;
  const Var y = mlp(context, x, spec);
  outcome.y = floats_of(y.value);
  tape.seed(own.stream, y, random_tensor(own.stream, {rows, kWidth}, 2));
  tape.backward(own.stream);
  if (wants_dx) outcome.dx = floats_of(tape.take_gradient(x));
  for (ParamId id = 0; id < store.count(); ++id) {
    outcome.gradients[id] = floats_of(plain.gradient(id));
  }
  outcome.leases = store.leases;
  outcome.slots = store.slots;
  outcome.ready = store.ready;
  return outcome;
}

void check_near(const Floats& a, const Floats& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == Approx(b[i]).epsilon(1e-5).margin(1e-5));
}

TEST_CASE("an MLP in tiles is the MLP, whatever the tiles", "[model][device]") {
  TestStream own{2};
  for (const bool gated : {false, true}) {
    for (const int64_t rows : {1, 2, 7, 12}) {
      const Outcome whole = run(own, rows, 1, gated);
      for (const int64_t tiles : {2, 3, 7, 100}) {
        CAPTURE(gated, rows, tiles);
        const Outcome tiled = run(own, rows, tiles, gated);
        check_near(tiled.y, whole.y);
        check_near(tiled.dx, whole.dx);
        for (const auto& [id, gradient] : whole.gradients) {
          check_near(tiled.gradients.at(id), gradient);
        }
      }
    }
  }
}

TEST_CASE("tiles lease weights once in a pass, and each gradient is ready once", "[model]") {
  TestStream own{2};
  const Outcome few = run(own, 12, 2, true), many = run(own, 12, 6, true);
  // Weights and biases of three products, and again without the bias that y alone needs.
  CHECK(few.leases == 6 + 5);
  CHECK(many.leases == few.leases);
  CHECK(many.slots == 6);
  CHECK(many.ready.size() == 6);
  CHECK(many.ready == run(own, 12, 1, true).ready);
}

TEST_CASE("tiles of an input that nobody differentiates give gradients of weights alone",
          "[model]") {
  TestStream own{2};
  const Outcome constant = run(own, 7, 3, false, false);
  CHECK(constant.gradients == run(own, 7, 3, false).gradients);
}

TEST_CASE("tiles that are none are an error", "[model]") {
  TestStream own{1};
  CHECK_THROWS_WITH(run(own, 7, 0, false), Catch::Contains("mlp: 0 tiles"));
}

}  // namespace
}  // namespace ds
