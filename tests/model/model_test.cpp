// GPT-2 and Llama as whole models: names, numeric gradients through every layer, evaluation,
// memory, the dry run on meta, and generation with and without a cache.
#include <set>

#include "config/reader/fields.h"
#include "core/memory/adaptors.h"
#include "core/memory/replay_arena.h"
#include "model/activation_name.h"
#include "model/families/zoo.h"
#include "model/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/sums.h"
#include "tests/support/tensor_gradcheck.h"
#include "tests/support/tiny_models.h"

using namespace ds;
using testing::CpuStream;
using testing::random_tokens;

namespace {

constexpr int64_t kVocabulary = testing::kTinyVocabulary;

Gpt2Config tiny_gpt2() { return testing::tiny_gpt2(2); }
LlamaConfig tiny_llama() { return testing::tiny_llama(2); }

struct Case {
  std::string name;
  ModelConfig config;
};

std::vector<Case> every_case() {
  Gpt2Config untied = tiny_gpt2();
  untied.tie_word_embeddings = false;
  untied.activation_function = "gelu";
  untied.n_inner = 20;
  LlamaConfig biased = tiny_llama();
  biased.tie_word_embeddings = true;
  biased.attention_bias = biased.mlp_bias = true;
  biased.num_key_value_heads.reset();
  biased.head_dim = 6;
  return {{"gpt2", tiny_gpt2()},
          {"gpt2 untied", untied},
          {"llama", tiny_llama()},
          {"llama tied, biased", biased}};
}

struct Bench {
  explicit Bench(const ModelConfig& config, DType dtype = DType::kF32)
      : store(cpu.stream, 3), model(make_model(config, dtype, store)) {
    store.seal();
    tokens = random_tokens(cpu.stream, {2, 7}, 1, kVocabulary);
    targets = random_tokens(cpu.stream, {2, 7}, 2, kVocabulary);
    targets.data<int32_t>()[3] = -100;
  }

  Tensor train_pass(float grad_scale = 0.1F) {
    store.clear_gradients();
    Tape tape;
    Context context{.stream = cpu.stream, .store = store, .mode = RunMode::kTrain, .tape = &tape};
    const Tensor losses = model->loss(context, tokens, targets, grad_scale);
    context.tape->backward(context.stream);
    return losses;
  }
  double total_loss() {
    Context context{.stream = cpu.stream, .store = store};
    return testing::sum_of(cpu.stream, model->loss(context, tokens, targets, 1));
  }

  CpuStream cpu{2};
  PlainStore store;
  std::unique_ptr<LanguageModel> model;
  Tensor tokens, targets;
};

std::vector<std::string> names(const ModelConfig& config) {
  Bench bench(config);
  std::vector<std::string> all;
  for (ParamId id = 0; id < bench.store.count(); ++id) all.push_back(bench.store.spec(id).name);
  return all;
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

}  // namespace

TEST_CASE("parameters have their Hugging Face names, shapes and units", "[model]") {
  const auto gpt2 = names(tiny_gpt2());
  CHECK(gpt2.front() == "transformer.wte.weight");
  CHECK(contains(gpt2, "transformer.wpe.weight"));
  CHECK(contains(gpt2, "transformer.h.1.attn.c_attn.bias"));
  CHECK(contains(gpt2, "transformer.h.0.mlp.c_proj.weight"));
  CHECK(gpt2.back() == "transformer.ln_f.bias");
  CHECK(gpt2.size() == 2 + 2 * 12 + 2);
  const auto llama = names(tiny_llama());
  CHECK(llama.front() == "model.embed_tokens.weight");
  CHECK(contains(llama, "model.layers.1.self_attn.k_proj.weight"));
  CHECK(contains(llama, "model.layers.0.post_attention_layernorm.weight"));
  CHECK(llama.back() == "lm_head.weight");
  CHECK(llama.size() == 1 + 2 * 9 + 2);

  Bench bench(tiny_gpt2());
  std::set<int> units;
  for (ParamId id = 0; id < bench.store.count(); ++id) units.insert(bench.store.spec(id).unit);
  CHECK(units == std::set<int>{0, 1, 2, 3});
  CHECK(bench.store.spec(4).shape == Shape{16, 48});  // c_attn is [in, out]
}

TEST_CASE("every activation that the model section takes has a kernel", "[model]") {
  struct Names final : Visitor {
    void on_field(const Field& field) override {
      if (field.key == "activation_function") names = field.spec.only;
    }
    void on_section(const Section&) override {}
    void on_collection(const Collection&) override {}
    std::vector<std::string_view> names;
  } visitor;
  Gpt2Config config;
  fields(visitor, config);
  CHECK(visitor.names.size() == 7);
  for (const std::string_view name : visitor.names) CHECK_NOTHROW(parse_activation(name));
}

TEST_CASE("projections into the residual stream start smaller in GPT-2", "[model]") {
  Bench bench(tiny_gpt2());
  for (ParamId id = 0; id < bench.store.count(); ++id) {
    const ParamSpec& spec = bench.store.spec(id);
    if (spec.init.kind != Initializer::Kind::kNormal) continue;
    const bool residual = spec.name.find("c_proj") != std::string::npos;
    CHECK(spec.init.standard_deviation == Approx(residual ? 0.1F : 0.2F));
  }
}

TEST_CASE("every parameter of every family has the numeric gradient", "[model]") {
  for (const Case& c : every_case()) {
    Bench bench(c.config);
    bench.train_pass();
    for (ParamId id = 0; id < bench.store.count(); ++id) {
      testing::check_gradient(c.name + " " + bench.store.spec(id).name,
                              [&] { return 0.1 * bench.total_loss(); }, bench.store.weight(id),
                              bench.store.gradient(id), {.elements = 7});
    }
  }
}

TEST_CASE("evaluation gives the losses of training and no gradients", "[model]") {
  for (const Case& c : every_case()) {
    Bench bench(c.config);
    const double trained = testing::sum_of(bench.cpu.stream, bench.train_pass());
    INFO(c.name);
    CHECK(bench.total_loss() == Approx(trained).epsilon(1e-6));
    bench.store.clear_gradients();
    bench.total_loss();
    CHECK_THROWS_AS(bench.store.gradient(0), InternalError);
  }
}

TEST_CASE("two micro-steps accumulate the gradient of both", "[model]") {
  Bench bench(tiny_gpt2());
  bench.train_pass();
  const double once = testing::squares_of(bench.cpu.stream, bench.store.gradient(0));
  Tape tape;
  Context context{
      .stream = bench.cpu.stream, .store = bench.store, .mode = RunMode::kTrain, .tape = &tape};
  bench.model->loss(context, bench.tokens, bench.targets, 0.1F);
  context.tape->backward(context.stream);
  CHECK(testing::squares_of(bench.cpu.stream, bench.store.gradient(0)) ==
        Approx(4 * once).epsilon(1e-4));
}

TEST_CASE("low-precision models stay near the fp32 loss", "[model]") {
  for (const Case& c : every_case()) {
    const double expected = Bench(c.config).total_loss();
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      Bench bench(c.config, dtype);
      INFO(c.name << " " << name_of(dtype));
      CHECK(testing::sum_of(bench.cpu.stream, bench.train_pass()) ==
            Approx(expected).epsilon(2e-2));
      CHECK(kernels::all_finite(bench.cpu.stream, bench.store.gradient(0)));
    }
  }
}

TEST_CASE("dropout changes the training loss, not the evaluation, and repeats", "[model]") {
  Gpt2Config dropped = tiny_gpt2();
  dropped.resid_pdrop = dropped.embd_pdrop = dropped.attn_pdrop = 0.3;
  Bench bench(dropped);
  const double first = testing::sum_of(bench.cpu.stream, bench.train_pass());
  CHECK(testing::sum_of(bench.cpu.stream, bench.train_pass()) == first);
  CHECK(first != Approx(bench.total_loss()).epsilon(1e-4));
  CHECK(bench.total_loss() == Approx(Bench(tiny_gpt2()).total_loss()).epsilon(1e-6));
}

TEST_CASE("wrong tokens and targets are refused", "[model]") {
  Bench bench(tiny_gpt2());
  Context context{.stream = bench.cpu.stream, .store = bench.store};
  const Tensor longer = random_tokens(bench.cpu.stream, {1, 13}, 1, kVocabulary);
  CHECK_THROWS_AS(bench.model->loss(context, longer, longer, 1), InternalError);
  CHECK_THROWS_AS(bench.model->loss(context, bench.tokens, longer, 1), InternalError);
  bench.tokens.data<int32_t>()[5] = kVocabulary;
  CHECK_THROWS_AS(bench.model->loss(context, bench.tokens, bench.targets, 1), DataError);
}

TEST_CASE("backward leaves nothing but weights, gradients and losses", "[model]") {
  for (const Case& c : every_case()) {
    HostMemory host;
    MemoryAccount account;
    TrackingMemory memory(host, account);
    ThreadPool pool(1);
    Stream stream({.device = Device::cpu(), .memory = &memory, .pool = &pool});
    PlainStore store(stream, 1);
    const auto model = make_model(c.config, DType::kF32, store);
    store.seal();
    const Tensor tokens = random_tokens(stream, {2, 7}, 1, kVocabulary);
    const size_t before = account.usage().bytes_now;
    Tape tape;
    Context context{.stream = stream, .store = store, .mode = RunMode::kTrain, .tape = &tape};
    {
      const Tensor losses = model->loss(context, tokens, tokens, 1);
      context.tape->backward(context.stream);
      CHECK(account.usage().bytes_now == before + losses.bytes());
    }
    CHECK(account.usage().bytes_now == before);
  }
}

namespace {

std::vector<AllocationSpan> allocations(const ModelConfig& config, Device device, DType dtype) {
  HostMemory host;
  MetaMemory nowhere;
  MemoryResource& base = device.is_meta() ? static_cast<MemoryResource&>(nowhere) : host;
  RecordingMemory recording(base);
  ThreadPool pool(2);
  Stream stream({.device = device, .memory = &base, .pool = &pool});
  PlainStore store(stream, 1);
  const auto model = make_model(config, dtype, store);
  store.seal();
  Tensor tokens = Tensor::zeros({3, 9}, DType::kI32, stream);
  const MemoryScope scope(stream, recording);
  {
    Tape tape;
    Context context{.stream = stream, .store = store, .mode = RunMode::kTrain, .tape = &tape};
    model->loss(context, tokens, tokens, 1);
    context.tape->backward(context.stream);
    Context evaluation{.stream = stream, .store = store};
    model->loss(evaluation, tokens, tokens, 1);
  }
  return recording.spans();
}

}  // namespace

TEST_CASE("the dry run on meta allocates exactly what the real run does", "[model]") {
  for (const Case& c : every_case()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const auto real = allocations(c.config, Device::cpu(), dtype);
      const auto dry = allocations(c.config, Device::meta(), dtype);
      INFO(c.name << " " << name_of(dtype));
      REQUIRE(real.size() == dry.size());
      for (size_t i = 0; i < real.size(); ++i) {
        REQUIRE(real[i].bytes == dry[i].bytes);
        REQUIRE(real[i].tag == dry[i].tag);
        REQUIRE(real[i].begin == dry[i].begin);
        REQUIRE(real[i].end == dry[i].end);
      }
    }
  }
}

namespace {

Tensor prefix(Stream& stream, const Tensor& tokens, int64_t length) {
  const int64_t batch = tokens.shape()[0];
  Tensor part = Tensor::empty({batch, length}, DType::kI32, stream);
  for (int64_t i = 0; i < batch * length; ++i) {
    part.data<int32_t>()[i] = tokens.data<int32_t>()[i / length * tokens.shape()[1] + i % length];
  }
  return part;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  double largest = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    largest = std::max(largest, std::abs(double{a.data<float>()[i]} - double{b.data<float>()[i]}));
  }
  return largest;
}

}  // namespace

TEST_CASE("generation with a cache gives the logits of the whole prefix", "[model]") {
  for (const Case& c : every_case()) {
    Bench bench(c.config);
    Stream& stream = bench.cpu.stream;
    KvCache cache(stream, dimensions(c.config), DType::kF32, 2, 10);
    Context cached{.stream = stream, .store = bench.store};
    cached.cache = &cache;
    Context whole{.stream = stream, .store = bench.store};
    Tensor logits = bench.model->next_logits(cached, prefix(stream, bench.tokens, 3));
    for (int64_t length = 3; length <= 7; ++length) {
      INFO(c.name << ", length " << length);
      CHECK(largest_difference(logits, bench.model->next_logits(
                                           whole, prefix(stream, bench.tokens, length))) < 1e-4);
      if (length == 7) break;
      Tensor next = Tensor::empty({2, 1}, DType::kI32, stream);
      for (int64_t b = 0; b < 2; ++b) {
        next.data<int32_t>()[b] = bench.tokens.data<int32_t>()[b * 7 + length];
      }
      logits = bench.model->next_logits(cached, next);
    }
    CHECK(cache.length() == 7);
    CHECK_THROWS_AS(bench.model->next_logits(cached, bench.tokens), InternalError);
  }
}

TEST_CASE("the loss is the negative log likelihood of the next logits", "[model]") {
  Bench bench(tiny_llama());
  Stream& stream = bench.cpu.stream;
  Context context{.stream = stream, .store = bench.store};
  const Tensor losses = bench.model->loss(context, bench.tokens, bench.targets, 1);
  const Tensor logits = bench.model->next_logits(context, bench.tokens);
  const float* row = logits.data<float>() + kVocabulary;  // of the second sequence
  double sum = 0;
  for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(double{row[v]});
  const double target = double{row[bench.targets.data<int32_t>()[13]]};
  CHECK(double{losses.data<float>()[13]} == Approx(std::log(sum) - target).epsilon(1e-5));
}

namespace {

// Hands out fp32 memory for the gradients of low-precision weights, as a store does that sums
// micro-steps in fp32.
class WideGradients final : public ParameterStore {
 public:
  WideGradients(PlainStore& inner, Stream& stream) : inner_(inner), stream_(stream) {}
  ParamId add(ParamSpec spec) override { return inner_.add(std::move(spec)); }
  void seal() override {
    inner_.seal();
    for (ParamId id = 0; id < count(); ++id) {
      gradients_.push_back(Tensor::zeros(spec(id).shape, DType::kF32, stream_));
    }
  }
  int count() const override { return inner_.count(); }
  const ParamSpec& spec(ParamId id) const override { return inner_.spec(id); }
  Lease acquire(ParamId id) override { return inner_.acquire(id); }
  GradSlot grad_slot(ParamId id) override {
    return {gradients_[static_cast<size_t>(id)], inner_.grad_slot(id).write};
  }
  void grad_ready(ParamId id) override { inner_.grad_ready(id); }
  void expect_uses(ParamId id, int uses) override { inner_.expect_uses(id, uses); }
  const Tensor& gradient(ParamId id) const { return gradients_[static_cast<size_t>(id)]; }

 private:
  PlainStore& inner_;
  Stream& stream_;
  std::vector<Tensor> gradients_;
};

}  // namespace

TEST_CASE("gradients of bf16 weights may be summed in fp32", "[model]") {
  for (const Case& c : every_case()) {
    Bench reference(c.config);
    reference.train_pass();
    CpuStream cpu;
    PlainStore inner(cpu.stream, 3, PlainStore::Gradients::kAllocate);
    WideGradients store(inner, cpu.stream);
    const auto model = make_model(c.config, DType::kBF16, store);
    store.seal();
    Tape tape;
    Context context{.stream = cpu.stream, .store = store, .mode = RunMode::kTrain, .tape = &tape};
    model->loss(context, reference.tokens, reference.targets, 0.1F);
    context.tape->backward(context.stream);
    for (ParamId id = 0; id < store.count(); ++id) {
      const Tensor& expected = reference.store.gradient(id);
      const double size = std::sqrt(testing::squares_of(cpu.stream, expected));
      INFO(c.name << " " << store.spec(id).name);
      CHECK(std::sqrt(testing::squares_of(cpu.stream, store.gradient(id))) ==
            Approx(size).epsilon(0.05).margin(0.01));
    }
  }
}
