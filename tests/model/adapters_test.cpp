// Linear layers with low-rank adapters: what they add, their gradients, what they drop, and that
// the weights beside them are frozen.
#include "model/functions/adapters.h"

#include "config/families/spec/adapters.h"
#include "model/functions/magnitudes.h"
#include "tests/model/function_harness.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using testing::CpuStream;
using testing::floats_of;
using testing::Harness;
using testing::PlacedInputs;
using testing::random_tensor;

// Adapters whose B begins as something else than zeros.
AdapterSpec spec_of(std::vector<std::string> targets, double dropout = 0,
                    bool has_magnitudes = false) {
  return {.rank = 2,
          .alpha = 3,
          .dropout = dropout,
          .targets = std::move(targets),
          .has_magnitudes = has_magnitudes,
          .start = AdapterStart::kRandom};
}

struct Adapted {
  explicit Adapted(const AdapterSpec& spec) : rules(spec) { h.root.adapters = &rules; }
  LinearPart part(const char* name, int64_t in, int64_t out,
                  WeightLayout layout = WeightLayout::kOutIn, Bias bias = Bias::kZeros) {
    return linear_part(h.root.child(name), in, out, layout, bias, 0.3);
  }

  AdapterRules rules;
  Harness h;
};

TEST_CASE("a linear layer with an adapter has the numeric gradient in both layouts",
          "[model][device]") {
  const double dropout = GENERATE(0.0, 0.4);
  for (const auto layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    Adapted a(spec_of({"w"}, dropout));
    const LinearSpec spec{.parts = {a.part("w", 5, 7, layout)}, .in = 5, .layout = layout};
    REQUIRE(has_adapters(spec));
    a.h.seal();
    a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1),
              [&](Context& context, const Var& x) { return linear(context, x, spec); });
  }
}

TEST_CASE("some of several weights of one input have adapters", "[model][device]") {
  Adapted a(spec_of({"q", "v"}));
  const LinearSpec spec{.parts = {a.part("q", 5, 4), a.part("k", 5, 2), a.part("v", 5, 3)},
                        .in = 5};
  CHECK(spec.parts[0].adapter);
  CHECK_FALSE(spec.parts[1].adapter);
  a.h.seal();
  a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return linear(context, x, spec); });
}

TEST_CASE("projections that a folder joins share one A and have rows of one B", "[model][device]") {
  Adapted a(spec_of({"qkv"}));
  const auto joined = [&](const char* name, int64_t out, int64_t first) {
    return linear_part(
        a.h.root.child(name), 5, out, WeightLayout::kOutIn, Bias::kNone, 0.3, {},
        StoredOutputs{
            .module = "qkv", .rows = {.rows = 7, .first = first, .block = out}, .layers = 2});
  };
  const LinearSpec spec{.parts = {joined("q", 4, 0), joined("v", 3, 4)}, .in = 5};
  REQUIRE(spec.parts[1].adapter);
  CHECK(spec.parts[0].adapter->a == spec.parts[1].adapter->a);
  CHECK(a.h.store.spec(spec.parts[0].adapter->a).name == "qkv.lora_A.weight");
  const ParamSpec& b = a.h.store.spec(spec.parts[1].adapter->b);
  CHECK(b.name == "v.lora_B.weight");
  CHECK(b.stored->name == "qkv.lora_B.weight");
  CHECK(b.stored->row_of(2) == 6);
  a.h.seal();
  a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return linear(context, x, spec); });
}

// Lengths follow from A and B, and no gradient goes through them: peft's golden gradients have that
// (tests/train/lora).
TEST_CASE("a layer with magnitudes has the numeric gradient of its inputs, biases and magnitudes",
          "[model][device]") {
  AdapterSpec with = spec_of({"w", "v"}, 0, true);
  with.bias = AdapterBias::kAll;
  for (const auto layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    Adapted a(with);
    const LinearSpec spec{.parts = {a.part("w", 5, 7, layout), a.part("k", 5, 2, layout),
                                    a.part("v", 5, 3, layout, Bias::kNone)},
                          .in = 5,
                          .layout = layout};
    a.h.not_numeric = {"w.lora_A.weight", "w.lora_B.weight", "v.lora_A.weight", "v.lora_B.weight"};
    REQUIRE(has_magnitudes(spec));
    a.h.seal();
    a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1),
              [&](Context& context, const Var& x) { return linear(context, x, spec); });
  }
}

TEST_CASE("an MLP with magnitudes has the numeric gradient of its inputs, gated or not",
          "[model][device]") {
  const bool has_gate = GENERATE(false, true);
  Adapted a(spec_of({"up", "gate", "down"}, 0, true));
  MlpSpec spec{.up = {.parts = {a.part("up", 5, 7)}, .in = 5},
               .down = {.parts = {a.part("down", 7, 4)}, .in = 7},
               .has_gate = has_gate,
               .activation = kernels::Activation::kGeluExact};
  if (has_gate) spec.up.parts.insert(spec.up.parts.begin(), a.part("gate", 5, 7));
  for (const char* const module : {"up", "gate", "down"}) {
    for (const char* const factor : {"lora_A", "lora_B"}) {
      a.h.not_numeric.insert(fmt::format("{}.{}.weight", module, factor));
    }
  }
  a.h.seal();
  a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return mlp(context, x, spec); });
}

TEST_CASE("an MLP with adapters has the numeric gradient, gated or not, also in tiles",
          "[model][device]") {
  const bool has_gate = GENERATE(false, true);
  const double dropout = GENERATE(0.0, 0.4);
  const int64_t tiles = GENERATE(1, 2);
  CAPTURE(has_gate, dropout, tiles);
  Adapted a(spec_of({std::string(AdapterSpec::kAllLinear)}, dropout));
  MlpSpec spec{.up = {.parts = {a.part("up", 5, 7)}, .in = 5},
               .down = {.parts = {a.part("down", 7, 4)}, .in = 7},
               .has_gate = has_gate,
               .activation = kernels::Activation::kGeluExact};
  if (has_gate) spec.up.parts.insert(spec.up.parts.begin(), a.part("gate", 5, 7));
  a.h.seal();
  a.h.check(random_tensor(a.h.cpu.stream, {6, 5}, 1), [&](Context& context, const Var& x) {
    Context inside = context;
    inside.pass.mlp_tiles = tiles;
    return mlp(inside, x, spec);
  });
}

// The value of a layer with adapters, row by row.
std::vector<float> run(Adapted& a, const LinearSpec& spec, const Tensor& x, RunMode mode,
                       int64_t first_row = 0) {
  const PlacedInputs inputs(a.h.cpu.stream);
  Context context{
      .stream = a.h.cpu.stream,
      .store = &a.h.store,
      .pass = {
          .mode = mode, .micro = inputs.get(), .length = Harness::kLength, .first_row = first_row}};
  return floats_of(linear(context, {x, Var::kConstant}, spec).value);
}

TEST_CASE("an adapter adds s x A^T B^T, and nothing where B is zero", "[model]") {
  AdapterSpec fresh = spec_of({"w"});
  fresh.start = AdapterStart::kUniform;
  Adapted a(fresh);
  const LinearSpec spec{.parts = {a.part("w", 2, 1)}, .in = 2};
  a.h.store.seal();
  const Adapter& adapter = *spec.parts[0].adapter;
  Tensor x = Tensor::zeros({1, 2}, DType::kF32, a.h.cpu.stream);
  x.data<float>()[0] = 2;
  x.data<float>()[1] = -1;
  const float before = run(a, spec, x, RunMode::kTrain)[0];
  const std::vector<float> ab{1, 2, 3, 4};  // A, row by row
  std::copy(ab.begin(), ab.end(), a.h.store.weight(adapter.a).data<float>());
  CHECK(run(a, spec, x, RunMode::kTrain)[0] == before);
  a.h.store.weight(adapter.b).data<float>()[0] = 10;
  a.h.store.weight(adapter.b).data<float>()[1] = 100;
  // A x = (0, 2); s = 3 / 2.
  CHECK(run(a, spec, x, RunMode::kTrain)[0] == Approx(before + 1.5F * 200));
}

TEST_CASE("adapters drop of their inputs in training alone, by the place of a row", "[model]") {
  Adapted a(spec_of({"w"}, 0.5));
  const LinearSpec spec{.parts = {a.part("w", 8, 3)}, .in = 8};
  a.h.seal();
  const Tensor x = random_tensor(a.h.cpu.stream, {6, 8}, 3);
  const std::vector<float> dropped = run(a, spec, x, RunMode::kTrain);
  CHECK(run(a, spec, x, RunMode::kTrain) == dropped);
  CHECK(run(a, spec, x, RunMode::kEval) != dropped);
  // The last two rows by themselves, as a tile.
  const Tensor tile = x.narrow(32, 16).reshape({2, 8});
  const std::vector<float> last = run(a, spec, tile, RunMode::kTrain, 4);
  double elsewhere = 0;
  const std::vector<float> as_first = run(a, spec, tile, RunMode::kTrain);
  for (size_t i = 0; i < last.size(); ++i) {
    CHECK(last[i] == Approx(dropped[12 + i]).margin(1e-5));
    elsewhere += std::abs(as_first[i] - last[i]);
  }
  CHECK(elsewhere > 0.1);
}

TEST_CASE("beside adapters the model's own parameters are frozen but for those that are named",
          "[model]") {
  AdapterSpec spec = spec_of({"q"});
  const auto trained = [](const AdapterSpec& of) {
    Adapted a(of);
    a.part("q", 4, 4);
    a.part("k", 4, 4);
    layer_norm_params(a.h.root.child("norm"), 4, 1e-5);
    std::vector<std::string> names;
    for (ParamId id = 0; id < a.h.store.count(); ++id) {
      if (a.h.store.spec(id).trains) names.push_back(a.h.store.spec(id).name);
    }
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(trained(spec) == Names{"q.lora_A.weight", "q.lora_B.weight"});
  spec.bias = AdapterBias::kLoraOnly;
  CHECK(trained(spec) == Names{"q.bias", "q.lora_A.weight", "q.lora_B.weight"});
  spec.bias = AdapterBias::kAll;
  CHECK(trained(spec) ==
        Names{"q.bias", "q.lora_A.weight", "q.lora_B.weight", "k.bias", "norm.bias"});
  spec.bias = AdapterBias::kNone;
  spec.saved_modules = {"norm"};
  CHECK(trained(spec) == Names{"q.lora_A.weight", "q.lora_B.weight", "norm.weight", "norm.bias"});
}

TEST_CASE("A begins between bounds by the inputs, or with a deviation by the rank", "[model]") {
  Adapted uniform(spec_of({"w"}));
  const ParamId a = uniform.part("w", 16, 3).adapter->a;
  const Initializer init = uniform.h.store.spec(a).init;
  CHECK(init.kind == Initializer::Kind::kUniform);
  CHECK(init.extent == 0.25F);
  uniform.h.store.seal();
  float least = 0, most = 0;
  for (const float value : floats_of(uniform.h.store.weight(a))) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  CHECK(least >= -0.25F);
  CHECK(most <= 0.25F);
  CHECK(most - least > 0.3F);
  AdapterSpec gaussian = spec_of({"w"});
  gaussian.start = AdapterStart::kGaussian;
  Adapted normal(gaussian);
  const LinearPart part = normal.part("w", 16, 3);
  CHECK(normal.h.store.spec(part.adapter->a).init.extent == 0.5F);
  CHECK(normal.h.store.spec(part.adapter->b).init.kind == Initializer::Kind::kZeros);
}

}  // namespace
}  // namespace ds
