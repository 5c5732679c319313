// Models of every family as a whole: names, numeric gradients through every layer, evaluation,
// memory, the dry run on meta, and generation with and without a cache.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "config/families/hf_config.h"
#include "config/reader/fields.h"
#include "core/memory/adaptors.h"
#include "core/memory/replay_arena.h"
#include "model/families/transformer_parts.h"
#include "model/families/zoo.h"
#include "model/modules/activation_name.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/sums.h"
#include "tests/support/tensor_gradcheck.h"
#include "tests/support/test_stream.h"
#include "tests/support/tiny_models.h"

using namespace ds;
using testing::CpuStream;
using testing::host_copy;
using testing::random_tokens;
using testing::TestStream;

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
  std::vector<Case> cases{{"gpt2 untied", untied}, {"llama tied, biased", biased}};
  for (const ModelConfig& model : testing::tiny_models(2)) {
    cases.push_back({std::string(family_name(model)), model});
  }
  return cases;
}

struct Bench {
  explicit Bench(const ModelConfig& config, DType dtype = DType::kF32)
      : store(own.stream, 3), model(make_model(config, dtype, store)) {
    store.seal();
    tokens = random_tokens(own.stream, {2, 7}, 1, kVocabulary);
    targets = random_tokens(own.stream, {2, 7}, 2, kVocabulary);
    set_token(targets, 3, -100);
  }

  Tensor train_pass(float grad_scale = 0.1F) {
    store.clear_gradients();
    Tape tape;
    const testing::PlacedInputs inputs(own.stream);
    Context context{.stream = own.stream,
                    .store = &store,
                    .tape = &tape,
                    .pass = {.mode = RunMode::kTrain, .micro = inputs.get()}};
    const Tensor losses = model->loss(context, tokens, targets, grad_scale);
    context.tape->backward(context.stream);
    return losses;
  }
  void set_token(const Tensor& tokens_or_targets, int64_t at, int32_t token) {
    own.stream.copy(&token, tokens_or_targets.narrow(at, 1).address(), sizeof(token));
  }
  double total_loss() {
    Context context{.stream = own.stream, .store = &store};
    return testing::sum_of(own.stream, model->loss(context, tokens, targets, 1));
  }

  TestStream own;
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

double largest_difference(const Tensor& a, const Tensor& b) {
  const std::vector<float> left = testing::floats_of(a), right = testing::floats_of(b);
  REQUIRE(left.size() == right.size());
  double largest = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    largest = std::max(largest, std::abs(double{left[i]} - double{right[i]}));
  }
  return largest;
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

TEST_CASE("encoders have the names of BertForMaskedLM and RobertaForMaskedLM", "[model]") {
  const auto bert = names(testing::tiny_like_bert<BertConfig>(2));
  for (const char* const name :
       {"bert.embeddings.word_embeddings.weight", "bert.embeddings.position_embeddings.weight",
        "bert.embeddings.token_type_embeddings.weight", "bert.embeddings.LayerNorm.bias",
        "bert.encoder.layer.1.attention.self.query.weight",
        "bert.encoder.layer.1.attention.output.dense.bias",
        "bert.encoder.layer.1.attention.output.LayerNorm.weight",
        "bert.encoder.layer.1.intermediate.dense.weight",
        "bert.encoder.layer.1.output.dense.weight", "bert.encoder.layer.1.output.LayerNorm.weight",
        "cls.predictions.transform.dense.weight", "cls.predictions.transform.LayerNorm.weight",
        "cls.predictions.bias"}) {
    CAPTURE(name);
    CHECK(contains(bert, name));
  }
  CHECK(bert.size() == 5 + 2 * 16 + 5);  // the head is the table
  const auto roberta = names(testing::tiny_like_bert<RobertaConfig>(2));
  CHECK(contains(roberta, "roberta.encoder.layer.0.output.dense.bias"));
  CHECK(contains(roberta, "lm_head.layer_norm.weight"));
  CHECK(contains(roberta, "lm_head.bias"));
}

TEST_CASE("a Gemma 2 has four norms in a block, which begin at zero", "[model]") {
  const auto models = testing::tiny_models(2);
  const auto gemma2 = std::ranges::find_if(
      models, [](const ModelConfig& model) { return std::holds_alternative<Gemma2Config>(model); });
  REQUIRE(gemma2 != models.end());
  const auto all = names(*gemma2);
  CHECK(all.size() == 1 + 2 * 11 + 1);  // the head is the table
  for (const char* norm : {"input", "post_attention", "pre_feedforward", "post_feedforward"}) {
    CHECK(contains(all, fmt::format("model.layers.1.{}_layernorm.weight", norm)));
  }
  Bench bench(*gemma2);
  for (ParamId id = 0; id < bench.store.count(); ++id) {
    const ParamSpec& spec = bench.store.spec(id);
    const bool is_norm = spec.name.find("norm") != std::string::npos;
    CHECK((spec.init.kind == Initializer::Kind::kZeros) == is_norm);
  }
}

TEST_CASE("the factor of embeddings is rounded to the dtype of the weights where a family says so",
          "[model]") {
  TestStream own;
  const auto factor = [&](const ModelConfig& config, DType dtype) {
    PlainStore store(own.stream, 3);
    const BuildContext root{.store = store, .dtype = dtype, .path = "", .unit = 0};
    return transformer_parts(config, root, {0, 1}).embedding->factor;
  };
  auto gemma = testing::tiny_like_llama<GemmaConfig>(1);
  gemma.hidden_size = 20;
  CHECK(factor(gemma, DType::kF32) == std::sqrt(20.0F));
  CHECK(factor(gemma, DType::kBF16) == 4.46875F);
  auto granite = testing::tiny_like_llama<GraniteConfig>(1);
  granite.embedding_multiplier = 4.4721;
  CHECK(factor(granite, DType::kBF16) == 4.4721F);
  CHECK(factor(testing::tiny_llama(1), DType::kBF16) == 1);
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
  CHECK(visitor.names.size() == 9);
  for (const std::string_view name : visitor.names) CHECK_NOTHROW(parse_activation(name));
}

TEST_CASE("projections into the residual stream start smaller in GPT-2", "[model]") {
  Bench bench(tiny_gpt2());
  for (ParamId id = 0; id < bench.store.count(); ++id) {
    const ParamSpec& spec = bench.store.spec(id);
    if (spec.init.kind != Initializer::Kind::kNormal) continue;
    const bool residual = spec.name.find("c_proj") != std::string::npos;
    CHECK(spec.init.extent == Approx(residual ? 0.1F : 0.2F));
  }
}

TEST_CASE("heads that score classes begin as transformers has them begin", "[model]") {
  // initializer_range, and of a ModernBERT that over sqrt(2 layers), and 1 / sqrt(width)
  const auto deviations = [](const char* name, ClassifierTask task) {
    const ModelConfig model = parse_hf_config(
        fmt::format(R"({{"architectures": ["{}"], "hidden_size": 64, "num_attention_heads": 4,
                         "intermediate_size": 32, "num_hidden_layers": 2, "vocab_size": 16,
                         "initializer_range": 0.5}})",
                    name),
        "c", {.labels = {"a", "b"}, .task = task});
    std::map<std::string, float> found;
    for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
      if (spec.init.kind == Initializer::Kind::kNormal) {
        found[spec.name] = spec.init.extent;
      }
    }
    return found;
  };
  for (const ClassifierTask task : {ClassifierTask::kTexts, ClassifierTask::kTokens}) {
    auto modern = deviations("ModernBertForMaskedLM", task);
    CHECK(modern.at("head.dense.weight") == Approx(0.25));
    CHECK(modern.at("classifier.weight") == Approx(0.125));
  }
  auto roberta = deviations("RobertaForMaskedLM", ClassifierTask::kTexts);
  CHECK(roberta.at("classifier.dense.weight") == Approx(0.5));
  CHECK(roberta.at("classifier.out_proj.weight") == Approx(0.5));
  CHECK(deviations("RobertaForMaskedLM", ClassifierTask::kTokens).at("classifier.weight") ==
        Approx(0.5));
}

TEST_CASE("every parameter of every family has the numeric gradient", "[model]") {
  for (const Case& c : every_case()) {
    Bench bench(testing::with_all_experts(c.config));
    bench.train_pass();
    for (ParamId id = 0; id < bench.store.count(); ++id) {
      testing::check_gradient(c.name + " " + bench.store.spec(id).name,
                              [&] { return 0.1 * bench.total_loss(); }, bench.store.weight(id),
                              bench.store.gradient(id), {.elements = 7});
    }
  }
}

TEST_CASE("every family gives on a device what it gives on the CPU", "[model][device]") {
  if (!testing::is_on_device()) return;  // that is the CPU
  for (const Case& c : every_case()) {
    Bench bench(c.config);
    CpuStream cpu(2);
    PlainStore store(cpu.stream, 3);
    const auto model = make_model(c.config, DType::kF32, store);
    store.seal();
    Tape tape;
    Context context{
        .stream = cpu.stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
    const Tensor expected =
        model->loss(context, host_copy(bench.tokens), host_copy(bench.targets), 0.1F);
    tape.backward(cpu.stream);
    INFO(c.name);
    CHECK(largest_difference(bench.train_pass(), expected) < 1e-4);
    for (ParamId id = 0; id < store.count(); ++id) {
      INFO(store.spec(id).name);
      REQUIRE(testing::bytes_of(bench.store.weight(id)) == testing::bytes_of(store.weight(id)));
      CHECK(largest_difference(bench.store.gradient(id), store.gradient(id)) < 1e-4);
    }
  }
}

TEST_CASE("evaluation gives the losses of training and no gradients", "[model][device]") {
  for (const Case& c : every_case()) {
    Bench bench(c.config);
    const double trained = testing::sum_of(bench.own.stream, bench.train_pass());
    INFO(c.name);
    CHECK(bench.total_loss() == Approx(trained).epsilon(1e-6));
    bench.store.clear_gradients();
    bench.total_loss();
    CHECK_THROWS_AS(bench.store.gradient(0), InternalError);
  }
}

TEST_CASE("two micro-steps accumulate the gradient of both", "[model][device]") {
  Bench bench(tiny_gpt2());
  bench.train_pass();
  const double once = testing::squares_of(bench.own.stream, bench.store.gradient(0));
  Tape tape;
  Context context{.stream = bench.own.stream,
                  .store = &bench.store,
                  .tape = &tape,
                  .pass = {.mode = RunMode::kTrain}};
  bench.model->loss(context, bench.tokens, bench.targets, 0.1F);
  context.tape->backward(context.stream);
  CHECK(testing::squares_of(bench.own.stream, bench.store.gradient(0)) ==
        Approx(4 * once).epsilon(1e-4));
}

TEST_CASE("low-precision models stay near the fp32 loss", "[model][device]") {
  for (const Case& c : every_case()) {
    const double expected = Bench(c.config).total_loss();
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      Bench bench(c.config, dtype);
      INFO(c.name << " " << name_of(dtype));
      CHECK(testing::sum_of(bench.own.stream, bench.train_pass()) ==
            Approx(expected).epsilon(2e-2));
      CHECK(kernels::all_finite(bench.own.stream, bench.store.gradient(0)));
    }
  }
}

TEST_CASE("dropout changes the training loss, not the evaluation, and repeats", "[model][device]") {
  Gpt2Config dropped = tiny_gpt2();
  dropped.resid_pdrop = dropped.embd_pdrop = dropped.attn_pdrop = 0.3;
  Bench bench(dropped);
  const double first = testing::sum_of(bench.own.stream, bench.train_pass());
  CHECK(testing::sum_of(bench.own.stream, bench.train_pass()) == first);
  CHECK(first != Approx(bench.total_loss()).epsilon(1e-4));
  CHECK(bench.total_loss() == Approx(Bench(tiny_gpt2()).total_loss()).epsilon(1e-6));
}

TEST_CASE("wrong tokens and targets are refused", "[model]") {
  Bench bench(tiny_gpt2());
  Context context{.stream = bench.own.stream, .store = &bench.store};
  const Tensor longer = random_tokens(bench.own.stream, {1, 13}, 1, kVocabulary);
  CHECK_THROWS_AS(bench.model->loss(context, longer, longer, 1), InternalError);
  CHECK_THROWS_AS(bench.model->loss(context, bench.tokens, longer, 1), InternalError);
  bench.set_token(bench.tokens, 5, kVocabulary);
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
    Context context{
        .stream = stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
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
    Context context{
        .stream = stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
    model->loss(context, tokens, tokens, 1);
    context.tape->backward(context.stream);
    Context evaluation{.stream = stream, .store = &store};
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

// Columns [begin, end) of the tokens.
Tensor columns(Stream& stream, const Tensor& tokens, int64_t begin, int64_t end) {
  const int64_t batch = tokens.shape()[0];
  const Tensor whole = host_copy(tokens);
  std::vector<int32_t> part;
  for (int64_t b = 0; b < batch; ++b) {
    const int32_t* const row = whole.data<int32_t>() + b * tokens.shape()[1];
    part.insert(part.end(), row + begin, row + end);
  }
  return testing::upload(part, {batch, end - begin}, stream);
}

}  // namespace

TEST_CASE("generation with a cache gives the logits of the whole prefix", "[model][device]") {
  for (const Case& c : every_case()) {
    if (!is_causal(c.config)) continue;
    Bench bench(c.config);
    Stream& stream = bench.own.stream;
    KvCache cache(stream, dimensions(c.config), DType::kF32, {2, 10});
    Context cached{.stream = stream, .store = &bench.store};
    cached.cache = &cache;
    Context whole{.stream = stream, .store = &bench.store};
    Tensor logits = bench.model->next_logits(cached, columns(stream, bench.tokens, 0, 3));
    for (int64_t length = 3; length <= 7; ++length) {
      INFO(c.name << ", length " << length);
      CHECK(largest_difference(logits, bench.model->next_logits(whole, columns(stream, bench.tokens,
                                                                               0, length))) < 1e-4);
      if (length == 7) break;
      logits = bench.model->next_logits(cached, columns(stream, bench.tokens, length, length + 1));
    }
    CHECK(cache.length() == 7);
    CHECK_THROWS_AS(bench.model->next_logits(cached, bench.tokens), InternalError);
  }
}

TEST_CASE("a model that sees both sides has no use for a cache", "[model]") {
  Bench bench(testing::tiny_like_bert<BertConfig>(1));
  KvCache cache(bench.own.stream, dimensions(bench.model->config()), DType::kF32, {2, 10});
  Context cached{.stream = bench.own.stream, .store = &bench.store};
  cached.cache = &cache;
  CHECK_THROWS_WITH(bench.model->next_logits(cached, bench.tokens),
                    Catch::Contains("sees those behind its own"));
}

TEST_CASE("the first word of a BERT reads the last one, and that of a GPT-2 does not", "[model]") {
  for (const ModelConfig& config :
       {ModelConfig(tiny_gpt2()), ModelConfig(testing::tiny_like_bert<BertConfig>(2))}) {
    Bench bench(config);
    Context context{.stream = bench.own.stream, .store = &bench.store};
    const auto first_loss = [&] {
      return host_copy(bench.model->loss(context, bench.tokens, bench.targets, 1)).data<float>()[0];
    };
    const float before = first_loss();
    const int32_t old = host_copy(bench.tokens).data<int32_t>()[6];
    bench.set_token(bench.tokens, 6, static_cast<int32_t>((old + 1) % kVocabulary));
    CHECK((first_loss() == before) == is_causal(config));
  }
}

TEST_CASE("the loss is the negative log likelihood of the next logits", "[model][device]") {
  for (const Case& c : every_case()) {
    INFO(c.name);
    Bench bench(c.config);
    Stream& stream = bench.own.stream;
    Context context{.stream = stream, .store = &bench.store};
    const Tensor losses = host_copy(bench.model->loss(context, bench.tokens, bench.targets, 1));
    const Tensor logits = host_copy(bench.model->next_logits(context, bench.tokens));
    const float* row = logits.data<float>() + kVocabulary;  // of the second sequence
    double sum = 0;
    for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(double{row[v]});
    const double target = double{row[host_copy(bench.targets).data<int32_t>()[13]]};
    CHECK(double{losses.data<float>()[13]} == Approx(std::log(sum) - target).epsilon(1e-5));
  }
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

TEST_CASE("gradients of bf16 weights may be summed in fp32", "[model][device]") {
  for (const Case& c : every_case()) {
    const ModelConfig config = testing::with_all_experts(c.config);
    Bench reference(config);
    reference.train_pass();
    reference.own.stream.synchronize();  // the other stream reads what it has
    TestStream own;
    PlainStore inner(own.stream, 3, PlainStore::Gradients::kAllocate);
    WideGradients store(inner, own.stream);
    const auto model = make_model(config, DType::kBF16, store);
    store.seal();
    Tape tape;
    Context context{
        .stream = own.stream, .store = &store, .tape = &tape, .pass = {.mode = RunMode::kTrain}};
    model->loss(context, reference.tokens, reference.targets, 0.1F);
    context.tape->backward(context.stream);
    for (ParamId id = 0; id < store.count(); ++id) {
      const Tensor& expected = reference.store.gradient(id);
      const double size = std::sqrt(testing::squares_of(own.stream, expected));
      INFO(c.name << " " << store.spec(id).name);
      CHECK(std::sqrt(testing::squares_of(own.stream, store.gradient(id))) ==
            Approx(size).epsilon(0.07).margin(0.01));
    }
  }
}
