// The step runner: every pipeline schedule over stages on threads has the bits of the whole model,
// and what it refuses.
#include "train/step_runner.h"

#include <map>
#include <mutex>

#include "model/families/zoo.h"
#include "model/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "train/observers.h"

namespace ds {
namespace {

constexpr int64_t kVocabulary = testing::kTinyVocabulary;
constexpr int64_t kSamples = 2, kLength = 7;
constexpr int kMicroBatches = 6;
constexpr double kTokens = kSamples * kLength * kMicroBatches;

// Six blocks, so eight layers: a pipeline of two ranks with two chunks each has two in each.
Gpt2Config gpt2(bool tied) {
  Gpt2Config c = testing::tiny_gpt2(6, 0.1);
  c.tie_word_embeddings = tied;
  return c;
}

LlamaConfig llama() { return testing::tiny_llama(6); }

class Tokens final : public BatchSource {
 public:
  void fill(int64_t step, int micro_step, std::span<int32_t> tokens,
            std::span<int32_t> targets) override {
    const Rng rng = Rng(1, "tokens").derive(static_cast<uint64_t>(10 * step + micro_step));
    for (size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<int32_t>(rng.bits(i) % kVocabulary);
      targets[i] = static_cast<int32_t>(rng.bits(i + 1) % kVocabulary);
    }
  }
  int64_t first_sample(int micro_step) const override { return micro_step * kSamples; }
};

struct Outcome {
  double loss = 0;
  std::map<std::string, std::vector<std::byte>> gradients;  // by parameter
  std::map<std::string, std::vector<std::byte>> other_end;  // of what two stages have
  int updates = 0;
};

// One rank of a pipeline over `comm`.
class Rank {
 public:
  Rank(const ModelConfig& config, DType dtype, PipelineKind kind, const PipelineShape& shape,
       Communicator& comm)
      : kind_(kind), shape_(shape), comm_(comm), cpu_(comm, 2), store_(cpu_.stream, 3) {
    const int stages = shape.stages * shape.chunks;
    const int64_t layers = all_layers(config).end;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int at = virtual_stage(kind, shape, comm.rank(), chunk);
      const LayerRange range{at * layers / stages, (at + 1) * layers / stages};
      stages_.push_back(make_stage(config, dtype, store_, range));
    }
    store_.seal();
    store_.clear_gradients();
  }

  void train(Outcome& outcome, std::mutex& mutex, RunMode mode = RunMode::kTrain) {
    const bool is_end = comm_.rank() == 0 || comm_.rank() == comm_.size() - 1;
    const auto ends = comm_.split(is_end ? 0 : 1, 0);
    const auto gradients = comm_.split(0, 0);
    StepPlace place{.stream = cpu_.stream,
                    .store = store_,
                    .loss = Tensor::zeros({1}, DType::kF64, cpu_.stream),
                    .chunks = {},
                    .micro_batch = kSamples,
                    .length = kLength,
                    .activations = &comm_,
                    .gradients = gradients.get(),
                    .ends = ends.get()};
    for (const auto& stage : stages_) place.chunks.push_back(stage.get());
    Tokens source;
    int updates = 0;
    const StepInput input{.source = source,
                          .mode = mode,
                          .tokens = kTokens,
                          .dropout = Rng(9, "dropout"),
                          .optimizer_step = [&] { ++updates; }};
    StepRunner(place, input).run(step_program(kind_, shape_, comm_.rank()));
    const std::lock_guard lock(mutex);
    outcome.loss += *place.loss.data<double>();
    outcome.updates += updates;
    if (mode == RunMode::kTrain) collect(outcome);
  }

 private:
  void collect(Outcome& outcome) {
    for (ParamId id = 0; id < store_.count(); ++id) {
      const Tensor& gradient = store_.gradient(id);
      const auto* first = static_cast<const std::byte*>(gradient.address());
      const std::string& name = store_.spec(id).name;
      auto& into = outcome.gradients.contains(name) ? outcome.other_end : outcome.gradients;
      into[name] = {first, first + gradient.bytes()};
    }
  }

  const PipelineKind kind_;
  const PipelineShape shape_;
  Communicator& comm_;
  test::RankStream cpu_;
  PlainStore store_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

Outcome run(const ModelConfig& config, DType dtype, PipelineKind kind, const PipelineShape& shape,
            RunMode mode = RunMode::kTrain) {
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(shape.stages, [&](Communicator& comm) {
    Rank(config, dtype, kind, shape, comm).train(outcome, mutex, mode);
  });
  return outcome;
}

// Sums over micro-batches depend on their order: GPipe's backward passes go from the last to the
// first, and on one rank they do too.
Outcome whole(const ModelConfig& config, DType dtype, PipelineKind kind) {
  const auto alone = kind == PipelineKind::kGpipe ? kind : PipelineKind::kDataParallel;
  return run(config, dtype, alone, {.micro_batches = kMicroBatches});
}

TEST_CASE("every pipeline schedule has the bits of the whole model", "[train]") {
  struct Case {
    PipelineKind kind;
    int stages;
    int chunks;
  };
  const std::vector<Case> cases{
      {PipelineKind::k1F1B, 2, 1},         {PipelineKind::k1F1B, 3, 1},
      {PipelineKind::k1F1B, 8, 1},         {PipelineKind::kGpipe, 2, 1},
      {PipelineKind::kGpipe, 4, 1},        {PipelineKind::kInterleaved, 1, 2},
      {PipelineKind::kInterleaved, 2, 2},  {PipelineKind::kInterleaved, 2, 4},
      {PipelineKind::kZeroBubbleH1, 3, 1}, {PipelineKind::kZeroBubbleV, 2, 2}};
  for (const ModelConfig& config : {ModelConfig(gpt2(false)), ModelConfig(llama())}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Case& c : cases) {
        CAPTURE(config.index(), name_of(dtype), to_string(c.kind), c.stages, c.chunks);
        const Outcome expected = whole(config, dtype, c.kind);
        const Outcome cut =
            run(config, dtype, c.kind,
                {.micro_batches = kMicroBatches, .stages = c.stages, .chunks = c.chunks});
        CHECK(cut.loss == expected.loss);
        CHECK(cut.updates == c.stages);
        CHECK(cut.other_end.empty());
        REQUIRE(cut.gradients.size() == expected.gradients.size());
        for (const auto& [name, gradient] : expected.gradients) {
          INFO(name);
          CHECK((cut.gradients.at(name) == gradient));  // without the bytes
        }
      }
    }
  }
}

// The whole model adds the head's and the embedding's contributions in turn, a pipeline adds two
// sums, so the table itself may differ in the last bits.
TEST_CASE("both ends of a tied embedding have the sum of their gradients", "[train]") {
  const std::string table = "transformer.wte.weight";
  const auto floats = [](const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  for (const int stages : {2, 3}) {
    const Outcome expected = whole(gpt2(true), DType::kF32, PipelineKind::k1F1B);
    Outcome cut = run(gpt2(true), DType::kF32, PipelineKind::k1F1B,
                      {.micro_batches = kMicroBatches, .stages = stages});
    CHECK(cut.other_end.size() == 1);
    CHECK((cut.other_end.at(table) == cut.gradients.at(table)));
    const auto sum = floats(cut.gradients.at(table));
    const auto whole_sum = floats(expected.gradients.at(table));
    REQUIRE(sum.size() == whole_sum.size());
    for (size_t i = 0; i < sum.size(); ++i) {
      CHECK(sum[i] == Approx(whole_sum[i]).epsilon(1e-4).margin(1e-7));
    }
    cut.gradients[table] = expected.gradients.at(table);
    CHECK((cut.gradients == expected.gradients));
  }
}

TEST_CASE("forward only, a pipeline has the losses of the whole model", "[train]") {
  const ModelConfig config = gpt2(true);
  const auto evaluate = [&](int stages) {
    return run(config, DType::kF32, PipelineKind::kInference,
               {.micro_batches = kMicroBatches, .stages = stages}, RunMode::kEval);
  };
  const Outcome alone = evaluate(1);
  CHECK(alone.loss > 0);
  CHECK(alone.updates == 0);
  for (const int stages : {2, 3, 8}) CHECK(evaluate(stages).loss == alone.loss);
}

// ---- what is refused, and who is told

struct Alone {
  explicit Alone(LayerRange layers)
      : store(cpu.stream, 3), stage(make_stage(llama(), DType::kF32, store, layers)) {
    store.seal();
  }
  StepPlace place() {
    return {.stream = cpu.stream,
            .store = store,
            .loss = Tensor::zeros({1}, DType::kF64, cpu.stream),
            .chunks = {stage.get()},
            .micro_batch = kSamples,
            .length = kLength};
  }

  testing::CpuStream cpu;
  PlainStore store;
  std::unique_ptr<Stage> stage;
  Tokens source;
};

TEST_CASE("messages need the group of the pipe axis", "[train]") {
  Alone first({0, 4});
  const StepPlace place = first.place();
  const StepInput input{.source = first.source};
  const StepProgram program =
      step_program(PipelineKind::k1F1B, {.micro_batches = 2, .stages = 2}, 0);
  CHECK_THROWS_AS(StepRunner(place, input).run(program), Unsupported);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("pipeline parallelism: SendActivation"));
}

TEST_CASE("an update needs somebody who makes it, after every micro-batch", "[train]") {
  Alone model({0, 8});
  const StepPlace place = model.place();
  const StepInput input{.source = model.source};
  StepProgram program = step_program(PipelineKind::kDataParallel, {}, 0);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program), Catch::Contains("nobody makes it"));
  REQUIRE(program.instructions[2].op == PipelineOp::kBackwardPass);
  program.instructions.erase(program.instructions.begin() + 2);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("micro-batch 0 is not finished"));
}

TEST_CASE("a buffer has one micro-batch at a time", "[train]") {
  Alone model({0, 8});
  const StepPlace place = model.place();
  const StepInput input{.source = model.source};
  const StepProgram program{
      .instructions = {{.op = PipelineOp::kLoadMicroBatch, .buffer = 0, .micro_batch = 0},
                       {.op = PipelineOp::kLoadMicroBatch, .buffer = 0, .micro_batch = 1}},
      .buffers = 1};
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("finds micro-batch 0 in its buffer"));
}

TEST_CASE("an arena serves one micro-batch at a time", "[train]") {
  Alone model({0, 8});
  const StepPlace place = model.place();
  ReplayArena arena({}, nullptr);
  const StepInput input{.source = model.source, .arena = &arena};
  CHECK_THROWS_WITH(
      StepRunner(place, input).run(step_program(PipelineKind::kGpipe, {.micro_batches = 2}, 0)),
      Catch::Contains("the program has 2"));
}

TEST_CASE("who watches hears of every micro-step before it begins", "[train]") {
  struct Heard final : StepObserver {
    void before_micro_step(int64_t steps_done, int micro_step) override {
      steps.emplace_back(steps_done, micro_step);
    }
    std::vector<std::pair<int64_t, int>> steps;
  } heard;
  Alone model({0, 8});
  const StepPlace place = model.place();
  const StepInput input{
      .source = model.source, .step = 4, .observer = &heard, .optimizer_step = [&] {
        CHECK(heard.steps.size() == 3);
      }};
  StepRunner(place, input).run(step_program(PipelineKind::kDataParallel, {.micro_batches = 3}, 0));
  CHECK(heard.steps == std::vector<std::pair<int64_t, int>>{{4, 0}, {4, 1}, {4, 2}});
}

}  // namespace
}  // namespace ds
