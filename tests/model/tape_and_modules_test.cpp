// Random graphs on the tape against a count of their paths; contexts without a tape; names of
// parameters; and what stores, caches and models refuse, with their words.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "core/memory/adaptors.h"
#include "core/values/rng.h"
#include "kernels/elementwise/elementwise.h"
#include "model/families/zoo.h"
#include "model/functions/functions.h"
#include "model/modules/activation_name.h"
#include "model/modules/module.h"
#include "model/pass/autograd.h"
#include "model/pass/initializer.h"
#include "model/pass/kv_cache.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

using testing::CpuStream;
using testing::random_tensor;
using testing::random_tokens;

Tensor scalar(Stream& stream, float value) {
  Tensor tensor = Tensor::empty({1}, DType::kF32, stream);
  tensor.data<float>()[0] = value;
  return tensor;
}

// y = sum of factor[i] * x[i], on the tape.
Var combine(Tape& tape, Stream& stream, const std::vector<Var>& inputs,
            const std::vector<float>& factors) {
  float sum = 0;
  for (size_t i = 0; i < inputs.size(); ++i) sum += factors[i] * inputs[i].value.data<float>()[0];
  auto backward = [&stream, factors](GradientFlow& flow) {
    const Tensor dy = flow.take(0);
    for (size_t i = 0; i < factors.size(); ++i) {
      Tensor dx = Tensor::empty({1}, DType::kF32, stream);
      kernels::cast(stream, dy, dx);
      kernels::scale(stream, factors[i], dx);
      flow.give(static_cast<int>(i), std::move(dx));
    }
  };
  return tape.record("combine", inputs, {scalar(stream, sum)}, backward).front();
}

TEST_CASE("the gradient of a leaf is the sum over all paths to the result, in any graph",
          "[model]") {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Rng rng(seed, "graph");
    uint64_t draw = 0;
    CpuStream cpu;
    HostMemory heap;
    MemoryAccount account;
    TrackingMemory tracking(heap, account);
    Stream stream({.memory = &tracking, .pool = &cpu.pool});
    std::vector<double> through;  // d(result) / d(node), filled from the back
    {
      Tape tape;
      std::vector<Var> nodes;
      std::vector<std::vector<std::pair<size_t, float>>> edges;  // of node i: (input, factor)
      for (int leaf = 0; leaf < 3; ++leaf) {
        nodes.push_back(tape.watch(scalar(stream, 1)));
        edges.emplace_back();
      }
      for (int step = 0; step < 12; ++step) {
        std::vector<Var> inputs;
        std::vector<float> factors;
        edges.emplace_back();
        const uint64_t count = 1 + rng.bits(draw++) % 3;
        for (uint64_t i = 0; i < count; ++i) {
          const size_t from = rng.bits(draw++) % nodes.size();  // the same one twice, too
          const auto factor = static_cast<float>(1 + rng.bits(draw++) % 3);
          inputs.push_back(nodes[from]);
          factors.push_back(factor);
          edges.back().emplace_back(from, factor);
        }
        nodes.push_back(combine(tape, stream, inputs, factors));
      }
      through.assign(nodes.size(), 0.0);
      through.back() = 1;
      for (size_t i = nodes.size(); i-- > 0;) {
        for (const auto& [from, factor] : edges[i]) {
          through[from] += through[i] * static_cast<double>(factor);
        }
      }
      tape.seed(stream, nodes.back(), scalar(stream, 1));
      tape.backward(stream);
      CHECK(tape.size() == 0);
      for (size_t leaf = 0; leaf < 3; ++leaf) {
        const Tensor gradient = tape.take_gradient(nodes[leaf]);
        CAPTURE(seed, leaf);
        REQUIRE(gradient.defined() == (through[leaf] != 0));
        if (gradient.defined()) {
          REQUIRE(static_cast<double>(gradient.data<float>()[0]) == through[leaf]);
        }
      }
    }
    CHECK(account.usage().bytes_now == 0);
  }
}

TEST_CASE("a node with several outputs runs when a gradient has reached any of them", "[model]") {
  CpuStream cpu;
  for (const int reached : {0, 1}) {
    Tape tape;
    std::vector<bool> defined;
    const std::vector<Var> out = tape.record(
        "two", {}, {scalar(cpu.stream, 1), scalar(cpu.stream, 2)}, [&](GradientFlow& flow) {
          for (int i = 0; i < 2; ++i) defined.push_back(flow.take(i).defined());
        });
    tape.seed(cpu.stream, out[static_cast<size_t>(reached)], scalar(cpu.stream, 1));
    tape.backward(cpu.stream);
    CHECK(defined == std::vector<bool>{reached == 0, reached == 1});
  }
}

TEST_CASE("a tape refuses gradients of other shapes and of constants, in words", "[model]") {
  CpuStream cpu;
  Tape tape;
  const Var x = tape.watch(Tensor::zeros({2, 3}, DType::kF32, cpu.stream));
  CHECK_THROWS_WITH(tape.seed(cpu.stream, x, Tensor::zeros({6}, DType::kF32, cpu.stream)),
                    Catch::Contains("gradient: shape [6] for a value of shape [2, 3]"));
  const Var constant{scalar(cpu.stream, 1), Var::kConstant};
  CHECK_THROWS_WITH(tape.seed(cpu.stream, constant, scalar(cpu.stream, 1)),
                    Catch::Contains("a constant has no gradient"));
  Saved saved = tape.save(x.value);
  CHECK(take(saved).aliases(x.value));
  CHECK_THROWS_WITH(take(saved), Catch::Contains("this saved tensor was taken before"));
}

TEST_CASE("without a tape nothing is kept and every output is a constant", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  store.seal();
  Context context{.stream = cpu.stream, .store = &store};
  CHECK_FALSE(context.differentiates());
  CHECK(context.save(scalar(cpu.stream, 1)) == nullptr);
  bool ran = false;
  const std::vector<Var> out = context.record(
      "op", {}, {scalar(cpu.stream, 3), scalar(cpu.stream, 4)}, [&](GradientFlow&) { ran = true; });
  REQUIRE(out.size() == 2);
  CHECK(out[1].value.data<float>()[0] == 4);
  CHECK(out[0].slot == Var::kConstant);
  CHECK_FALSE(ran);
}

TEST_CASE("parameters are named by the path of their modules and carry its unit and dtype",
          "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const BuildContext root{.store = store, .dtype = DType::kBF16, .path = "", .unit = 0};
  const BuildContext block = root.child("transformer").child("h", 3).in_unit(4);
  const LinearPart out_in =
      linear_part(block.child("proj"), 5, 7, WeightLayout::kOutIn, Bias::kZeros, 0.02);
  const LinearPart in_out =
      linear_part(block.child("conv"), 5, 7, WeightLayout::kInOut, Bias::kNone, 0.5);
  const NormSpec layer = layer_norm_params(block.child("ln"), 5, 1e-5);
  const NormSpec rms = rms_norm_params(root.child("norm"), 5, 1e-6);
  CHECK(store.spec(out_in.weight).name == "transformer.h.3.proj.weight");
  CHECK(store.spec(out_in.weight).shape == Shape{7, 5});
  CHECK(store.spec(out_in.bias).name == "transformer.h.3.proj.bias");
  CHECK(store.spec(out_in.bias).init.kind == Initializer::Kind::kZeros);
  CHECK(store.spec(in_out.weight).shape == Shape{5, 7});
  CHECK(store.spec(in_out.weight).init.extent == 0.5F);
  CHECK(in_out.bias == kNoParam);
  CHECK(store.spec(layer.beta).name == "transformer.h.3.ln.bias");
  CHECK(store.spec(layer.gamma).init.kind == Initializer::Kind::kOnes);
  CHECK(rms.beta == kNoParam);
  CHECK(store.spec(rms.gamma).name == "norm.weight");
  CHECK(store.spec(rms.gamma).unit == 0);
  CHECK(store.spec(layer.gamma).unit == 4);
  CHECK(store.spec(rms.gamma).dtype == DType::kBF16);
  CHECK_THROWS_WITH(rms_norm_params(root.child("norm"), 5, 1e-6),
                    Catch::Contains("norm.weight was added before"));
}

TEST_CASE("activations are found by every name that Hugging Face gives them", "[model]") {
  using kernels::Activation;
  const std::vector<std::pair<const char*, Activation>> known{
      {"gelu_new", Activation::kGeluTanh},   {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh},  {"gelu", Activation::kGeluExact},
      {"relu", Activation::kRelu},           {"silu", Activation::kSilu},
      {"swish", Activation::kSilu},          {"tanh", Activation::kTanh},
      {"quick_gelu", Activation::kQuickGelu}};
  for (const auto& [name, activation] : known) CHECK(parse_activation(name) == activation);
  for (const char* name : {"", "GELU", "sigmoid", "gelu_newer"}) {
    CHECK_THROWS_AS(parse_activation(name), Unsupported);
    CHECK_THROWS_WITH(parse_activation(name),
                      Catch::Contains(fmt::format("model.activation_function = \"{}\"", name)) &&
                          Catch::Contains("relu, silu, swish"));
  }
}

TEST_CASE("a store says which parameter was used out of order, and how", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const auto spec = [](const char* name) { return ParamSpec{.name = name, .shape = {2}}; };
  const ParamId w = store.add(spec("w"));
  CHECK_THROWS_WITH(store.acquire(w), Catch::Contains("acquire: w before seal()"));
  CHECK_THROWS_WITH(store.expect_uses(w, 0), Catch::Contains("0 uses of w"));
  CHECK_THROWS_WITH(store.acquire(7), Catch::Contains("parameter 7 of 1"));
  CHECK_THROWS_WITH(store.spec(-1), Catch::Contains("parameter -1 of 1"));
  store.seal();
  CHECK_THROWS_WITH(store.seal(), Catch::Contains("seal: called twice"));
  CHECK_THROWS_WITH(store.add(spec("late")), Catch::Contains("late comes after seal()"));
  CHECK_THROWS_WITH(store.expect_uses(w, 2), Catch::Contains("to be said before seal()"));
  CHECK_THROWS_WITH(store.grad_ready(w), Catch::Contains("w: no contribution was begun"));
  CHECK_THROWS_WITH(store.gradient(w), Catch::Contains("gradient: w is not complete"));
  store.grad_slot(w);
  CHECK_THROWS_WITH(store.grad_slot(w), Catch::Contains("was not reported ready"));
  CHECK_THROWS_WITH(store.clear_gradients(), Catch::Contains("w is being written"));
  PlainStore inference(cpu.stream, 1, PlainStore::Gradients::kNone);
  const ParamId v = inference.add(spec("v"));
  inference.seal();
  CHECK_THROWS_WITH(inference.grad_slot(v), Catch::Contains("v: this store holds no gradients"));
}

TEST_CASE("a lease calls back once, when the last of its owners goes", "[model]") {
  CpuStream cpu;
  int released = 0;
  {
    Lease first(scalar(cpu.stream, 1), [&] { ++released; });
    const Lease second(std::move(first));
    CHECK(second.weight().defined());
    CHECK(released == 0);
  }
  CHECK(released == 1);
}

TEST_CASE("any part of an initial weight is the part of the whole, on any number of threads",
          "[model]") {
  CpuStream cpu(3);
  const ParamSpec spec{
      .name = "w", .shape = {70, 130}, .init = {Initializer::Kind::kNormal, 0.02F}};
  Tensor whole = Tensor::empty({9100}, DType::kF32, cpu.stream);
  initialize(spec, 5, 0, whole);
  Tensor pooled = Tensor::empty({9100}, DType::kF32, cpu.stream);
  initialize(spec, 5, 0, pooled, &cpu.pool);
  CHECK(std::equal(whole.data<float>(), whole.data<float>() + 9100, pooled.data<float>()));
  for (const auto& [begin, count] : std::vector<std::pair<int64_t, int64_t>>{
           {0, 1}, {1, 255}, {257, 513}, {9099, 1}, {9100, 0}}) {
    Tensor part = Tensor::empty({count}, DType::kF32, cpu.stream);
    initialize(spec, 5, begin, part, &cpu.pool);
    CHECK(std::equal(part.data<float>(), part.data<float>() + count, whole.data<float>() + begin));
  }
  Tensor two = Tensor::empty({2}, DType::kF32, cpu.stream);
  CHECK_THROWS_WITH(initialize(spec, 5, 9099, two),
                    Catch::Contains("elements [9099, 9101) of w [70, 130]"));
  CHECK_THROWS_AS(initialize(spec, 5, -1, two), InternalError);
}

TEST_CASE("a cache has room for what was said and refuses more, in positions", "[model]") {
  CpuStream cpu;
  const ModelDimensions dims{.positions = 10, .layers = 3, .kv_heads = 2, .head_dim = 4};
  KvCache cache(cpu.stream, dims, DType::kBF16, {5, 8});
  CHECK(cache.keys(2).shape() == Shape{5, 8, 8});
  CHECK(cache.values(0).dtype() == DType::kBF16);
  CHECK_FALSE(cache.keys(0).aliases(cache.values(0)));
  cache.advance(5);
  cache.advance(3);
  CHECK(cache.length() == 8);
  CHECK_THROWS_WITH(cache.advance(2), Catch::Contains("2 positions more than its 8"));
  CHECK(cache.length() == 8);
  cache.clear();
  CHECK(cache.length() == 0);
  CHECK_THROWS_WITH(KvCache(cpu.stream, dims, DType::kF32, {5, 11}),
                    Catch::Contains("5 sequences of 11 positions; the model has 10 positions"));
  CHECK_THROWS_AS(KvCache(cpu.stream, dims, DType::kF32, {0, 5}), InternalError);
  CHECK_THROWS_AS(KvCache(cpu.stream, dims, DType::kF32, {5, 0}), InternalError);
}

// A GPT-2 that fits a screen, sealed, with weights of a seed.
struct Small {
  Small() : store(cpu.stream, 3) {
    Gpt2Config config;
    config.vocab_size = 11;
    config.n_positions = 6;
    config.n_embd = 8;
    config.n_layer = 1;
    config.n_head = 2;
    model = make_model(config, DType::kF32, store);
    store.seal();
  }
  Context context() { return {.stream = cpu.stream, .store = &store}; }
  Tensor tokens(int64_t batch, int64_t length) {
    return random_tokens(cpu.stream, {batch, length}, 1, 11);
  }
  CpuStream cpu;
  PlainStore store;
  std::unique_ptr<LanguageModel> model;
};

TEST_CASE("a model refuses tokens, targets and caches that it cannot take, in words", "[model]") {
  Small small;
  Stream& stream = small.cpu.stream;
  Context context = small.context();
  const Tensor tokens = small.tokens(2, 4);
  const auto loss = [&](const Tensor& x, const Tensor& targets) {
    small.model->loss(context, x, targets, 1);
  };
  CHECK_THROWS_WITH(loss(tokens.reshape({8}), tokens),
                    Catch::Contains("tokens are int32 [8], expected int32 [B, T]"));
  CHECK_THROWS_WITH(loss(Tensor::zeros({2, 4}, DType::kF32, stream), tokens),
                    Catch::Contains("tokens are fp32 [2, 4]"));
  CHECK_THROWS_WITH(loss(small.tokens(2, 7), small.tokens(2, 7)),
                    Catch::Contains("sequences of 7 tokens, it has 6 positions"));
  CHECK_THROWS_WITH(loss(tokens, small.tokens(2, 3)),
                    Catch::Contains("targets are int32 [2, 3], expected int32 [2, 4]"));
  Tape tape;
  Context training = small.context();
  training.tape = &tape;
  CHECK_THROWS_WITH(small.model->next_logits(training, tokens),
                    Catch::Contains("give a context without tape"));
  KvCache cache(stream, dimensions(small.model->config()), DType::kF32, {2, 6});
  Context cached = small.context();
  cached.cache = &cache;
  CHECK_THROWS_WITH(small.model->loss(cached, tokens, tokens, 1),
                    Catch::Contains("a cache is for generation"));
  CHECK_THROWS_WITH(small.model->next_logits(cached, small.tokens(3, 4)),
                    Catch::Contains("3 sequences with a cache of 2"));
  small.model->next_logits(cached, tokens);
  CHECK(cache.length() == 4);
  CHECK_THROWS_WITH(small.model->next_logits(cached, small.tokens(2, 2)),
                    Catch::Contains("2 new positions after 4 cached ones; give them one by one"));
  small.model->next_logits(cached, small.tokens(2, 1));
  small.model->next_logits(cached, small.tokens(2, 1));
  CHECK_THROWS_WITH(small.model->next_logits(cached, small.tokens(2, 1)),
                    Catch::Contains("position 6 of a model with 6"));
}

TEST_CASE("a cache that is cleared gives what a new one gives", "[model]") {
  Small small;
  KvCache cache(small.cpu.stream, dimensions(small.model->config()), DType::kF32, {2, 6});
  Context cached = small.context();
  cached.cache = &cache;
  const Tensor first = small.model->next_logits(cached, small.tokens(2, 5));
  cache.clear();
  const Tensor again = small.model->next_logits(cached, small.tokens(2, 5));
  CHECK(std::equal(first.data<float>(), first.data<float>() + first.numel(), again.data<float>()));
}

TEST_CASE("a token outside the vocabulary is bad data, of a sequence and of a target", "[model]") {
  Small small;
  Context context = small.context();
  Tensor tokens = small.tokens(1, 3);
  const Tensor good = small.tokens(1, 3);
  tokens.data<int32_t>()[2] = 11;
  CHECK_THROWS_AS(small.model->loss(context, tokens, good, 1), DataError);
  CHECK_THROWS_WITH(small.model->loss(context, tokens, good, 1),
                    Catch::Contains("row 2 has token 11, expected 0 <= token < 11"));
  CHECK_THROWS_AS(small.model->loss(context, good, tokens, 1), DataError);
  tokens.data<int32_t>()[2] = -3;
  CHECK_THROWS_AS(small.model->next_logits(context, tokens), DataError);
  CHECK_NOTHROW(small.model->loss(context, good, tokens, 1));  // an ignored target
}

TEST_CASE("functions refuse inputs that do not fit, and sharing where they overwrite", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  const BuildContext root{.store = store, .dtype = DType::kF32, .path = "", .unit = 0};
  LinearSpec spec;
  spec.in = 4;
  spec.parts.push_back(linear_part(root.child("a"), 4, 3, WeightLayout::kOutIn, Bias::kNone, 0.1));
  spec.parts.push_back(linear_part(root.child("b"), 4, 2, WeightLayout::kOutIn, Bias::kNone, 0.1));
  store.seal();
  CHECK(spec.out() == 5);
  Context context{.stream = cpu.stream, .store = &store};
  const Var x{random_tensor(cpu.stream, {6, 5}, 1), Var::kConstant};
  CHECK_THROWS_WITH(linear(context, x, spec),
                    Catch::Contains("x has shape [6, 5], expected [N, 4]"));
  const MlpSpec two_up{.up = spec, .down = {.parts = {}, .in = 5}};
  const Var fits{random_tensor(cpu.stream, {6, 4}, 1), Var::kConstant};
  CHECK_THROWS_WITH(mlp(context, fits, two_up), Catch::Contains("an activation over 2 weights"));
  CHECK_THROWS_WITH(mlp(context, x, two_up),
                    Catch::Contains("mlp: x has shape [6, 5], expected [N, 4]"));
  const MlpSpec uneven{.up = spec,
                       .down = {.parts = {}, .in = 3},
                       .has_gate = true,
                       .activation = kernels::Activation::kSilu};
  CHECK_THROWS_WITH(mlp(context, fits, uneven),
                    Catch::Contains("mlp: 5 columns go up with the gate, 3 come down"));
  const kernels::AttentionShape shape{1, 6, 1, 1, 4};
  Var packed{random_tensor(cpu.stream, {6, 12}, 2), Var::kConstant};
  const Tensor held = packed.value;
  const kernels::RotaryTable rotary{.frequencies = {1.0F}};
  CHECK_THROWS_WITH(rope(context, shape, rotary, {}, packed),
                    Catch::Contains("somebody else holds qkv"));
  CHECK_THROWS_WITH(norm_heads(context, shape, {}, packed),
                    Catch::Contains("norm of heads: works in place"));
}

TEST_CASE("dropout is nothing in evaluation and where nothing is dropped", "[model]") {
  CpuStream cpu;
  PlainStore store(cpu.stream, 1);
  store.seal();
  const Tensor x = random_tensor(cpu.stream, {4, 8}, 1);
  const auto run = [&](RunMode mode, float p) {
    const MicroInputs inputs;
    Context context{
        .stream = cpu.stream, .store = &store, .pass = {.mode = mode, .micro = &inputs}};
    return dropout(context, {x, Var::kConstant}, {.p = p}, 4).value;
  };
  CHECK(run(RunMode::kEval, 0.9F).aliases(x));
  CHECK(run(RunMode::kTrain, 0).aliases(x));
  const Tensor dropped = run(RunMode::kTrain, 0.5F);
  CHECK_FALSE(dropped.aliases(x));  // somebody else holds x
  CHECK(std::count(dropped.data<float>(), dropped.data<float>() + 32, 0.0F) > 0);
  CHECK(std::count(x.data<float>(), x.data<float>() + 32, 0.0F) == 0);
}

}  // namespace
}  // namespace ds
