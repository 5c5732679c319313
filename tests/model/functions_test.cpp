// Every differentiable function: gradients of inputs and parameters against central differences on
// the CPU; on other devices results and gradients against those of the CPU.
#include "model/functions/functions.h"

#include <algorithm>
#include <cmath>

#include "kernels/attention/attention.h"
#include "kernels/embedding/embedding.h"
#include "model/modules/module.h"
#include "model/pass/kv_cache.h"
#include "model/stores/plain_store.h"
#include "tests/model/function_harness.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/test_stream.h"

using namespace ds;
using testing::bytes_of;
using testing::check_gradient;
using testing::CpuStream;
using testing::Harness;
using testing::PlacedInputs;
using testing::random_tensor;
using testing::TestStream;
using testing::upload;

namespace {

LinearPart part(const BuildContext& build, int64_t in, int64_t out, WeightLayout layout,
                Bias bias) {
  return linear_part(build, in, out, layout, bias, 0.3);
}

}  // namespace

TEST_CASE("linear has the numeric gradient in both layouts", "[model][device]") {
  for (const auto layout : {WeightLayout::kOutIn, WeightLayout::kInOut}) {
    Harness h;
    LinearSpec spec{
        .parts = {part(h.root.child("w"), 5, 7, layout, Bias::kZeros)}, .in = 5, .layout = layout};
    h.seal();
    h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return linear(context, x, spec); });
  }
}

TEST_CASE("an MLP has the numeric gradient with every activation", "[model][device]") {
  for (const auto activation : {kernels::Activation::kNone, kernels::Activation::kGeluTanh,
                                kernels::Activation::kGeluExact, kernels::Activation::kSilu}) {
    Harness h;
    constexpr auto kLayout = WeightLayout::kInOut;
    const MlpSpec spec{.up = {.parts = {part(h.root.child("up"), 5, 7, kLayout, Bias::kZeros)},
                              .in = 5,
                              .layout = kLayout},
                       .down = {.parts = {part(h.root.child("down"), 7, 4, kLayout, Bias::kZeros)},
                                .in = 7,
                                .layout = kLayout},
                       .activation = activation};
    h.seal();
    h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return mlp(context, x, spec); });
  }
}

TEST_CASE("an MLP with a gate has the numeric gradient", "[model][device]") {
  for (const auto bias : {Bias::kNone, Bias::kZeros}) {
    Harness h;
    constexpr auto kLayout = WeightLayout::kOutIn;
    const MlpSpec spec{
        .up = {.parts = {part(h.root.child("gate"), 5, 7, kLayout, bias),
                         part(h.root.child("up"), 5, 7, kLayout, bias)},
               .in = 5},
        .down = {.parts = {part(h.root.child("down"), 7, 4, kLayout, bias)}, .in = 7},
        .has_gate = true,
        .activation = kernels::Activation::kSilu};
    h.seal();
    h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return mlp(context, x, spec); });
  }
}

// A relu has a kink, over which differences are no derivative: tests of kernels have it.
TEST_CASE("an MLP has the numeric gradient with every smooth function behind its gate",
          "[model][device]") {
  for (const auto function : {kernels::Activation::kSilu, kernels::Activation::kGeluTanh,
                              kernels::Activation::kGeluExact}) {
    CAPTURE(static_cast<int>(function));
    Harness h;
    constexpr auto kLayout = WeightLayout::kOutIn;
    const MlpSpec spec{
        .up = {.parts = {part(h.root.child("gate"), 5, 7, kLayout, Bias::kNone),
                         part(h.root.child("up"), 5, 7, kLayout, Bias::kNone)},
               .in = 5},
        .down = {.parts = {part(h.root.child("down"), 7, 4, kLayout, Bias::kNone)}, .in = 7},
        .has_gate = true,
        .activation = function};
    h.seal();
    h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
            [&](Context& context, const Var& x) { return mlp(context, x, spec); });
  }
}

TEST_CASE("a factor has the numeric gradient, and one of 1 leaves what it is given",
          "[model][device]") {
  Harness h;
  h.seal();
  h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
          [&](Context& context, const Var& x) { return scaled(context, x, -1.75F); });
  Context context{.stream = h.cpu.stream, .store = &h.store};
  const Tensor x = random_tensor(h.cpu.stream, {6, 5}, 1);
  CHECK(scaled(context, {x, Var::kConstant}, 1).value.address() == x.address());
  const Var twice = scaled(context, {x, Var::kConstant}, 2);
  CHECK(twice.value.address() != x.address());  // somebody else holds it
}

TEST_CASE("a norm whose weight is around one begins at zero and has the numeric gradient",
          "[model][device]") {
  Harness h;
  const NormSpec spec =
      rms_norm_params(h.root.child("norm"), 6, 1e-5, kernels::RmsWeight::kOnePlus);
  CHECK(h.store.spec(spec.gamma).init.kind == Initializer::Kind::kZeros);
  h.seal();
  h.check(random_tensor(h.cpu.stream, {5, 6}, 1),
          [&](Context& context, const Var& x) { return norm(context, x, {}, spec).y; });
}

TEST_CASE("several weights of one input fill columns and have the numeric gradient",
          "[model][device]") {
  Harness h;
  LinearSpec spec{.parts = {part(h.root.child("q"), 5, 4, WeightLayout::kOutIn, Bias::kZeros),
                            part(h.root.child("k"), 5, 2, WeightLayout::kOutIn, Bias::kNone),
                            part(h.root.child("v"), 5, 3, WeightLayout::kOutIn, Bias::kZeros)},
                  .in = 5,
                  .layout = WeightLayout::kOutIn};
  h.seal();
  h.check(random_tensor(h.cpu.stream, {6, 5}, 1),
          [&](Context& context, const Var& x) { return linear(context, x, spec); });
}

TEST_CASE("norms have the numeric gradient, alone and with a residual", "[model][device]") {
  for (const bool layer_norm : {true, false}) {
    Harness h;
    const NormSpec first = layer_norm ? layer_norm_params(h.root.child("a"), 6, 1e-5)
                                      : rms_norm_params(h.root.child("a"), 6, 1e-5);
    const NormSpec second = layer_norm ? layer_norm_params(h.root.child("b"), 6, 1e-5)
                                       : rms_norm_params(h.root.child("b"), 6, 1e-5);
    h.seal();
    h.check(random_tensor(h.cpu.stream, {5, 6}, 1), [&](Context& context, const Var& x) {
      const NormOutput inner = norm(context, x, {}, first);
      return norm(context, inner.sum, inner.y, second).y;
    });
  }
}

TEST_CASE("attention with rotary positions has the numeric gradient", "[model][device]") {
  for (const int64_t kv_heads : {4, 2, 1}) {
    Harness h;
    const kernels::AttentionShape shape{
        .batch = 2, .length = 5, .heads = 4, .kv_heads = kv_heads, .head_dim = 6};
    const kernels::RotaryTable rotary{.frequencies = {1.0F, 0.2F}, .factor = 1.5F};
    h.seal();
    h.check(
        random_tensor(h.cpu.stream, {10, shape.packed()}, 1), [&](Context& context, const Var& x) {
          // rope() works in place, and the input is still wanted.
          Tensor own = Tensor::empty(x.value.shape(), x.value.dtype(), context.stream);
          context.stream.copy(x.value.address(), own.address(), own.bytes());
          Var qkv{std::move(own), x.slot};
          return attention(context, {shape}, rope(context, shape, rotary, {}, std::move(qkv)), 0);
        });
  }
}

TEST_CASE("attention with sinks, and with narrow values, has the numeric gradient",
          "[model][device]") {
  for (const int64_t value_dim : {0, 3}) {
    for (const bool has_sinks : {true, false}) {
      if (value_dim == 0 && !has_sinks) continue;
      Harness h;
      const kernels::AttentionShape shape{
          .batch = 2, .length = 5, .heads = 4, .kv_heads = 2, .head_dim = 6};
      const ParamId sinks =
          has_sinks ? h.root.param("sinks", {4}, zeros(), ModuleKind::kLinear) : kNoParam;
      h.seal();
      const int64_t row = shape.packed() - (value_dim > 0 ? 2 * (6 - value_dim) : 0);
      h.check(random_tensor(h.cpu.stream, {10, row}, 1), [&](Context& context, const Var& x) {
        return attention(context, {.shape = shape, .value_dim = value_dim}, x, 0, {}, sinks);
      });
    }
  }
}

// A sink is a key that each query sees, of which nothing comes.
TEST_CASE("a sink is one more score of the softmax", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 5);
  const BuildContext root{.store = store, .dtype = DType::kF32, .path = "", .unit = 0};
  const ParamId sinks = root.param("sinks", {1}, zeros(), ModuleKind::kLinear);
  store.seal();
  store.weight(sinks).data<float>()[0] = std::log(3.0F);
  Context context{.stream = cpu.stream, .store = &store};
  // One query with one key of score 0, whose value is 8: a quarter of it is left.
  Tensor qkv = Tensor::zeros({1, 3}, DType::kF32, cpu.stream);
  qkv.data<float>()[2] = 8;
  const Var y = attention(context, {{1, 1, 1, 1, 1}}, {qkv, Var::kConstant}, 0, {}, sinks);
  CHECK(y.value.data<float>()[0] == Approx(2));
}

// The fourth value of heads of four is neither read nor given.
TEST_CASE("narrow values are those of attention whose others are zeros", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 5);
  Context context{.stream = cpu.stream, .store = &store};
  const kernels::AttentionShape shape{1, 6, 2, 1, 4};
  const Tensor narrow = random_tensor(cpu.stream, {6, 2 * 4 + 4 + 3}, 3);
  Tensor wide = Tensor::zeros({6, shape.packed()}, DType::kF32, cpu.stream);
  for (int64_t row = 0; row < 6; ++row) {
    std::copy_n(narrow.data<float>() + row * 15, 15, wide.data<float>() + row * 16);
  }
  const Tensor got =
      attention(context, {.shape = shape, .value_dim = 3}, {narrow, Var::kConstant}, 0).value;
  const Tensor all = attention(context, {shape}, {wide, Var::kConstant}, 0).value;
  REQUIRE(got.shape() == Shape{6, 6});
  for (int64_t row = 0; row < 6; ++row) {
    for (int64_t i = 0; i < 6; ++i) {
      CHECK(got.data<float>()[row * 6 + i] == all.data<float>()[row * 8 + i / 3 * 4 + i % 3]);
    }
  }
}

TEST_CASE("forms that a way of making attention has not are refused", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 5);
  const kernels::AttentionShape shape{1, 2, 1, 1, 4};
  const auto refusal = [&](Context& context, int64_t value_dim, ParamId sinks) {
    const Tensor qkv = Tensor::zeros({2, 12}, DType::kF32, cpu.stream);
    try {
      attention(context, {.shape = shape, .value_dim = value_dim}, {qkv, Var::kConstant}, 0, {},
                sinks);
    } catch (const Unsupported& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  ModelDimensions dims{.positions = 4, .layers = 1, .heads = 1, .kv_heads = 1, .head_dim = 4};
  KvCache cache(cpu.stream, dims, DType::kF32, {.batch = 1, .capacity = 4});
  Context cached{.stream = cpu.stream, .store = &store, .cache = &cache};
  CHECK_THAT(refusal(cached, 3, kNoParam),
             Catch::Contains("values that are narrower than keys with a cache"));
  CHECK_THAT(refusal(cached, 0, 0), Catch::Contains("sinks with a cache"));
  Tensor y = Tensor::zeros({2, 4}, DType::kF32, cpu.stream);
  Tensor lse = Tensor::zeros({1, 1, 2}, DType::kF32, cpu.stream);
  const Tensor qkv = Tensor::zeros({2, 12}, DType::kF32, cpu.stream);
  CHECK_THROWS_WITH(
      kernels::attention_forward(cpu.stream, {.shape = shape, .value_dim = 3}, qkv, y, lse),
      Catch::Contains("values of 3 elements in heads of 4"));
}

TEST_CASE("attention with dropout has the numeric gradient of its mask", "[model][device]") {
  Harness h;
  const kernels::AttentionShape shape{
      .batch = 2, .length = 6, .heads = 4, .kv_heads = 2, .head_dim = 5};
  h.seal();
  h.check(random_tensor(h.cpu.stream, {12, shape.packed()}, 1),
          [&](Context& context, const Var& x) {
            return attention(context, {shape}, x, 0, {.p = 0.4F, .site = 2});
          });
}

TEST_CASE("a sample's attention dropout does not depend on the batch it came in",
          "[model][device]") {
  TestStream own;
  PlainStore store(own.stream, 1);
  const kernels::AttentionShape one{
      .batch = 1, .length = 7, .heads = 2, .kv_heads = 2, .head_dim = 4};
  kernels::AttentionShape three = one;
  three.batch = 3;
  const Tensor qkv = random_tensor(own.stream, {21, one.packed()}, 4);
  const auto run = [&](RunMode mode, const kernels::AttentionShape& shape, Tensor rows,
                       int64_t first_sample) {
    const PlacedInputs inputs(own.stream, first_sample);
    Context context{
        .stream = own.stream, .store = &store, .pass = {.mode = mode, .micro = inputs.get()}};
    return attention(context, {shape}, {std::move(rows), Var::kConstant}, 0, {.p = 0.5F, .site = 1})
        .value;
  };
  const Tensor whole = run(RunMode::kTrain, three, qkv, 0);
  const int64_t numel = 7 * one.packed();
  const Tensor last = qkv.narrow(2 * numel, numel).reshape({7, one.packed()});
  const Tensor alone = run(RunMode::kTrain, one, last, 2);
  CHECK(bytes_of(alone) == bytes_of(whole.narrow(2 * alone.numel(), alone.numel())));
  const Tensor kept = run(RunMode::kEval, one, last, 2);
  CHECK(bytes_of(alone) != bytes_of(kept));
}

TEST_CASE("dropout passes the gradient through its mask", "[model][device]") {
  Harness h;
  h.seal();
  h.check(random_tensor(h.cpu.stream, {6, 7}, 1), [&](Context& context, Var x) {
    return dropout(context, std::move(x), {.p = 0.4F, .site = 3}, 2);
  });
}

TEST_CASE("a sample's dropout mask does not depend on the batch it came in", "[model][device]") {
  TestStream own;
  PlainStore store(own.stream, 1);
  const auto run = [&](int64_t first_sample, int64_t samples) {
    const PlacedInputs inputs(own.stream, first_sample);
    Context context{.stream = own.stream,
                    .store = &store,
                    .pass = {.mode = RunMode::kTrain, .micro = inputs.get()}};
    const std::vector<float> ones(to_size(samples * 12), 1.0F);
    const Tensor x = upload(ones, {samples * 3, 4}, own.stream);
    return dropout(context, {x, Var::kConstant}, {.p = 0.5F, .site = 1}, 3).value;
  };
  const Tensor whole = run(0, 4);
  const Tensor tail = run(2, 2);
  CHECK(bytes_of(tail) == bytes_of(whole.narrow(24, 24)));
}

TEST_CASE("embedding and positions have the numeric gradient", "[model][device]") {
  Harness h;
  const EmbeddingSpec spec{.table = h.root.param("wte", {7, 4}, normal(1)),
                           .positions = h.root.param("wpe", {6, 4}, normal(1)),
                           .width = 4};
  h.seal();
  h.check_parameters([&](Context& context) {
    const Tensor tokens = testing::random_tokens(context.stream, {10}, 3, 7);
    const TokenRows rows{.tokens = tokens,
                         .order = kernels::token_order(context.stream, tokens),
                         .rows = {.length = 5}};
    return embed(context, rows, DType::kF32, spec);
  });
}

TEST_CASE("the loss head has the numeric gradient and skips ignored rows", "[model]") {
  Harness h;
  const ParamId head = h.root.param("head", {9, 5}, normal(1));
  h.seal();
  Tensor targets = testing::random_tokens(h.cpu.stream, {6}, 3, 9);
  targets.data<int32_t>()[2] = -1;
  Tensor x = random_tensor(h.cpu.stream, {6, 5}, 1);
  const float grad_scale = 0.25F;
  const auto loss = [&] {
    Context context{.stream = h.cpu.stream, .store = &h.store};
    const Tensor losses =
        linear_cross_entropy(context, {x, Var::kConstant}, {.weight = head}, targets, grad_scale);
    double sum = 0;
    for (int64_t i = 0; i < losses.numel(); ++i) sum += double{losses.data<float>()[i]};
    return sum * double{grad_scale};
  };
  Tape tape;
  Context context{
      .stream = h.cpu.stream, .store = &h.store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
  const Var input = tape.watch(upload(x, h.cpu.stream));
  const Tensor losses = linear_cross_entropy(context, input, {.weight = head}, targets, grad_scale);
  CHECK(losses.data<float>()[2] == 0);
  tape.backward(h.cpu.stream);
  check_gradient("x", loss, x, tape.take_gradient(input));
  check_gradient("head", loss, h.store.weight(head), h.store.gradient(head));
}
