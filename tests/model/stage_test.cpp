// Stages: a model that is cut anywhere has the bits of the whole one, in losses and in every
// gradient; what a stage has of parameters; and weight gradients that wait.
#include <map>

#include "kernels/elementwise/elementwise.h"
#include "kernels/embedding/embedding.h"
#include "model/activations/recompute.h"
#include "model/families/zoo.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/step_numbers.h"
#include "tests/support/test_stream.h"
#include "tests/support/tiny_models.h"

using namespace ds;
using testing::bytes_of;
using testing::random_tokens;
using testing::TestStream;

namespace {

constexpr int64_t kVocabulary = testing::kTinyVocabulary;
constexpr float kScale = 0.1F;
const SequenceRows kRows{.batch = 2, .length = 7};

Gpt2Config tiny_gpt2(bool tied) {
  Gpt2Config c = testing::tiny_gpt2(3, 0.2);
  c.tie_word_embeddings = tied;
  return c;
}

LlamaConfig tiny_llama(bool tied) {
  LlamaConfig c = testing::tiny_llama(3);
  c.tie_word_embeddings = tied;
  return c;
}

std::vector<ModelConfig> every_model() {
  // For the sake of time the emulated device takes one of each family.
  if (testing::test_device().is_emulated) return {tiny_gpt2(true), tiny_llama(false)};
  std::vector<ModelConfig> models{tiny_gpt2(true), tiny_gpt2(false), tiny_llama(true),
                                  tiny_llama(false)};
  // Norms behind branches, factors of them, and norms of sums.
  for (const ModelConfig& tiny : testing::tiny_models(3)) {
    const bool is_other = std::holds_alternative<Gemma2Config>(tiny) ||
                          std::holds_alternative<GraniteConfig>(tiny) ||
                          std::holds_alternative<BertConfig>(tiny);
    if (is_other) models.push_back(tiny);
  }
  return models;
}

using Bytes = std::vector<std::byte>;

// One stage with a store and a tape of its own.
struct Part {
  Part(TestStream& test_stream, const ModelConfig& config, DType dtype, LayerRange layers,
       const RecomputedBlocks& recomputed = {})
      : own(test_stream),
        store(own.stream, 3),
        stage(make_stage(config, dtype, store, layers, {.recomputed = recomputed})),
        inputs(Rng(9, "dropout"), 4, own.stream),
        context{.stream = own.stream,
                .store = &store,
                .tape = &tape,
                .pass = {.mode = RunMode::kTrain, .micro = inputs.get()}} {
    store.seal();
    store.clear_gradients();
  }

  TestStream& own;
  PlainStore store;
  std::unique_ptr<Stage> stage;
  Tape tape;
  const testing::PlacedInputs inputs;
  Context context;
  Var in, out;
};

struct Outcome {
  Bytes losses;
  std::map<std::string, Bytes> gradients;  // by parameter
};

// The table of a tied embedding gets the head's contribution first, as in the whole model.
void hand_over(Part& from, Part& to) {
  if (from.stage->shared() == kNoParam || &from == &to) return;
  GradSlot slot = to.store.grad_slot(to.stage->shared());
  kernels::cast(to.own.stream, from.store.gradient(from.stage->shared()), slot.grad);
  to.store.grad_ready(to.stage->shared());
}

enum class Weights : uint8_t { kAtOnce, kAtTheEnd };  // when their gradients are computed
struct Way {
  Weights weights = Weights::kAtOnce;
  RecomputedBlocks recomputed{};
};

// `cuts`: the first layer of every stage, and the end.
Outcome train(TestStream& own, const ModelConfig& config, DType dtype,
              const std::vector<int64_t>& cuts, const Way& way = {}) {
  const Tensor tokens = random_tokens(own.stream, {kRows.batch * kRows.length}, 1, kVocabulary);
  const Tensor targets = random_tokens(own.stream, {kRows.batch * kRows.length}, 2, kVocabulary);
  const Tensor segments = random_tokens(own.stream, {kRows.batch * kRows.length}, 3, 2);
  const int32_t ignored = -100;
  own.stream.copy(&ignored, targets.narrow(3, 1).address(), sizeof(ignored));
  std::vector<std::unique_ptr<Part>> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    parts.push_back(std::make_unique<Part>(own, config, dtype, LayerRange{cuts[i], cuts[i + 1]},
                                           way.recomputed));
  }
  Outcome outcome;
  for (size_t i = 0; i < parts.size(); ++i) {
    Part& part = *parts[i];
    if (i > 0) part.in = part.tape.watch(parts[i - 1]->out.value);
    const StageInput input{.batch = {{"tokens", tokens},
                                     {"token_order", kernels::token_order(own.stream, tokens)},
                                     {"segments", segments},
                                     {"segment_order", kernels::token_order(own.stream, segments)},
                                     {"targets", targets}},
                           .boundary = part.in,
                           .rows = kRows};
    if (part.stage->is_last()) {
      outcome.losses = bytes_of(part.stage->losses(part.context, input, kScale));
    } else {
      part.out = part.stage->forward(part.context, input);
    }
  }
  std::vector<WeightWork> waiting;
  hand_over(*parts.back(), *parts.front());
  for (size_t i = parts.size(); i-- > 0;) {
    Part& part = *parts[i];
    if (!part.stage->is_last()) {
      const Var& boundary = parts[i + 1]->in;
      part.tape.seed(own.stream, part.out, parts[i + 1]->tape.take_gradient(boundary));
    }
    if (way.weights == Weights::kAtOnce) {
      part.tape.backward(own.stream);
    } else {
      for (WeightWork& work : part.tape.backward_inputs(own.stream)) {
        waiting.push_back(std::move(work));
      }
    }
  }
  for (const WeightWork& work : waiting) work.run();
  for (size_t i = parts.size(); i-- > 0;) {
    PlainStore& store = parts[i]->store;
    for (ParamId id = 0; id < store.count(); ++id) {
      outcome.gradients[store.spec(id).name] = bytes_of(store.gradient(id));
    }
  }
  return outcome;
}

std::vector<std::string> names(const ModelConfig& config, LayerRange layers) {
  TestStream own;
  PlainStore store(own.stream, 3);
  make_stage(config, DType::kF32, store, layers);
  std::vector<std::string> all;
  for (ParamId id = 0; id < store.count(); ++id) all.push_back(store.spec(id).name);
  return all;
}

}  // namespace

TEST_CASE("a model cut anywhere has the bits of the whole one", "[model][device]") {
  TestStream own{2};
  for (const ModelConfig& config : every_model()) {
    const int64_t end = all_layers(config).end;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Outcome whole = train(own, config, dtype, {0, end});
      std::vector<std::vector<int64_t>> cuts{{0, 1, 2, 3, 4, end}};
      for (int64_t cut = 1; cut < end; ++cut) cuts.push_back({0, cut, end});
      if (testing::test_device().is_emulated) cuts.resize(1);  // all at once, for the sake of time
      for (const auto& cut : cuts) {
        CAPTURE(config.index(), name_of(dtype), cut);
        const Outcome parts = train(own, config, dtype, cut);
        CHECK(parts.losses == whole.losses);
        REQUIRE(parts.gradients.size() == whole.gradients.size());
        for (const auto& [name, gradient] : whole.gradients) {
          INFO(name);
          CHECK(parts.gradients.at(name) == gradient);
        }
      }
    }
  }
}

TEST_CASE("weight gradients that wait for the end have the bits of those that do not",
          "[model][device]") {
  TestStream own{2};
  for (const ModelConfig& config : every_model()) {
    const int64_t end = all_layers(config).end;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const std::vector<int64_t>& cuts : {std::vector<int64_t>{0, end}, {0, 2, end}}) {
        CAPTURE(config.index(), name_of(dtype), cuts);
        const Outcome split = train(own, config, dtype, cuts, {Weights::kAtTheEnd});
        const Outcome whole = train(own, config, dtype, cuts);
        CHECK(split.losses == whole.losses);
        CHECK(split.gradients == whole.gradients);
      }
    }
  }
}

TEST_CASE("blocks and parts of blocks that are run again give the bits of those that are kept",
          "[model][device]") {
  TestStream own{2};
  const RecomputedBlocks blocks{.recompute = {.part = RecomputedPart::kBlock, .synchronize = true}};
  RecomputedBlocks pairs = blocks, middle = blocks, attention = blocks, mlp = blocks;
  pairs.per_segment = 2;
  middle.patterns = {"\\.1$"};
  attention.recompute.part = RecomputedPart::kAttention;
  mlp.recompute.part = RecomputedPart::kMlp;
  for (const ModelConfig& config : every_model()) {
    const int64_t end = all_layers(config).end;
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Outcome kept = train(own, config, dtype, {0, end});
      for (const RecomputedBlocks& recomputed : {blocks, pairs, middle, attention, mlp}) {
        for (const Weights weights : {Weights::kAtOnce, Weights::kAtTheEnd}) {
          CAPTURE(config.index(), name_of(dtype), static_cast<int>(recomputed.recompute.part),
                  recomputed.per_segment, recomputed.patterns, static_cast<int>(weights));
          const Outcome again = train(own, config, dtype, {0, 2, end}, {weights, recomputed});
          CHECK(again.losses == kept.losses);
          CHECK(again.gradients == kept.gradients);
        }
      }
    }
  }
}

TEST_CASE("what is run again is told how long it took, by its place", "[model]") {
  TestStream own{1};
  SegmentTimes times;
  train(own, tiny_gpt2(true), DType::kF32, {0, 5},
        {.recomputed = {.recompute = {.part = RecomputedPart::kBlock, .times = &times},
                        .patterns = {"h.0", "h.2"}}});
  REQUIRE(times.places.size() == 2);
  for (const char* place : {"transformer.h.0", "transformer.h.2"}) {
    CHECK(times.places.at(place).forward > 0);
    CHECK(times.places.at(place).backward > 0);
  }
}

TEST_CASE("blocks that are run again are chosen by expressions, or by an error", "[model]") {
  TestStream own;
  PlainStore store(own.stream, 3);
  CHECK_THROWS_WITH(
      make_stage(
          tiny_gpt2(true), DType::kF32, store, {0, 5},
          {.recomputed = {.recompute = {.part = RecomputedPart::kBlock}, .patterns = {"h.["}}}),
      Catch::Contains("activation_checkpointing.modules: 'h.[' is no regular expression"));
}

TEST_CASE("weight gradients wait for whoever takes the work, with their labels", "[model]") {
  TestStream own;
  Part part(own, tiny_gpt2(false), DType::kF32, {1, 2});
  part.in = part.tape.watch(testing::random_tensor(own.stream, {14, 16}, 1));
  part.out = part.stage->forward(part.context, {.boundary = part.in, .rows = kRows});
  part.tape.seed(own.stream, part.out, testing::random_tensor(own.stream, {14, 16}, 2));
  const std::vector<WeightWork> work = part.tape.backward_inputs(own.stream);
  CHECK(part.tape.take_gradient(part.in).defined());
  REQUIRE(part.store.spec(2).name == "transformer.h.0.attn.c_attn.weight");
  CHECK_THROWS_WITH(part.store.gradient(2), Catch::Contains("not complete"));
  std::vector<std::string> labels;
  for (const WeightWork& one : work) {
    labels.push_back(one.label);
    one.run();
  }
  const std::string mlp = "transformer.h.0 mlp backward";
  const std::string linear = "transformer.h.0 linear backward";
  CHECK(labels == std::vector<std::string>{mlp, mlp, linear, linear});
  CHECK_NOTHROW(part.store.gradient(2));
}

TEST_CASE("a stage has the parameters of its layers, and of a tied table both ends have one",
          "[model]") {
  using Names = std::vector<std::string>;
  CHECK(names(tiny_llama(false), {0, 1}) == Names{"model.embed_tokens.weight"});
  CHECK(names(tiny_llama(false), {4, 5}) == Names{"model.norm.weight", "lm_head.weight"});
  CHECK(names(tiny_llama(true), {4, 5}) == Names{"model.norm.weight", "model.embed_tokens.weight"});
  CHECK(names(tiny_gpt2(true), {4, 5}) ==
        Names{"transformer.ln_f.weight", "transformer.ln_f.bias", "transformer.wte.weight"});
  const Names block = names(tiny_gpt2(true), {2, 3});
  CHECK(block.size() == 12);
  for (const std::string& name : block) CHECK(name.starts_with("transformer.h.1."));

  TestStream own;
  const auto shared = [&](const ModelConfig& config, LayerRange layers) {
    PlainStore store(own.stream, 3);
    const ParamId id = make_stage(config, DType::kF32, store, layers)->shared();
    return id == kNoParam ? "" : store.spec(id).name;
  };
  for (const LayerRange layers : {LayerRange{0, 2}, LayerRange{2, 5}}) {
    CHECK(shared(tiny_gpt2(true), layers) == "transformer.wte.weight");
    CHECK(shared(tiny_gpt2(false), layers).empty());
  }
  CHECK(shared(tiny_gpt2(true), {0, 5}).empty());
  CHECK(shared(tiny_gpt2(true), {1, 4}).empty());
}

TEST_CASE("layers are listed with what a cut weighs them by", "[model]") {
  const std::vector<CutLayer> layers = layers_of(tiny_gpt2(true));
  REQUIRE(layers.size() == 5);
  CHECK(layers.front().type == "Embedding");
  CHECK(layers[1].type == "GPT2Block");
  CHECK(layers.back().type == "Head");
  CHECK(layers.front().parameters == (kVocabulary + 12) * 16);
  CHECK(layers.back().parameters == kVocabulary * 16 + 2 * 16);
  CHECK(layers[1].parameters == layers[3].parameters);
  CHECK(layers_of(tiny_llama(false))[2].type == "LlamaDecoderLayer");
  CHECK(cut_layers("type:GPT2Block", layers, 3).size() == 4);
}

TEST_CASE("a stage refuses layers and inputs that it cannot have", "[model]") {
  TestStream own;
  for (const LayerRange layers : {LayerRange{2, 2}, LayerRange{-1, 2}, LayerRange{3, 6}}) {
    PlainStore store(own.stream, 3);
    CHECK_THROWS_WITH(make_stage(tiny_gpt2(true), DType::kF32, store, layers),
                      Catch::Contains("of 5"));
  }
  Part middle(own, tiny_gpt2(true), DType::kF32, {1, 3});
  CHECK_THROWS_WITH(middle.stage->forward(middle.context, {.rows = kRows}),
                    Catch::Contains("fp32 [14, 16] of the stage before"));
  CHECK_THROWS_WITH(middle.stage->head(), Catch::Contains("only the last"));
  Part last(own, tiny_gpt2(true), DType::kF32, {4, 5});
  CHECK_THROWS_WITH(last.stage->forward(last.context, {.rows = kRows}),
                    Catch::Contains("gives losses"));
  Part first(own, tiny_gpt2(true), DType::kF32, {0, 1});
  const StageInput short_input{
      .batch = {{"tokens", random_tokens(own.stream, {13}, 1, kVocabulary)}}, .rows = kRows};
  CHECK_THROWS_WITH(first.stage->forward(first.context, short_input),
                    Catch::Contains("expected int32 [14]"));
  const StageInput unsorted{.batch = {{"tokens", random_tokens(own.stream, {14}, 1, kVocabulary)}},
                            .rows = kRows};
  CHECK_THROWS_WITH(first.stage->forward(first.context, unsorted),
                    Catch::Contains("its gradient needs the order of the tokens"));
}
