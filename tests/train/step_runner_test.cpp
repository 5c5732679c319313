// The step runner: every pipeline schedule over stages on threads has the bits of the whole model,
// and what it refuses.
#include "train/step/step_runner.h"

#include <cstring>
#include <map>
#include <mutex>

#include "core/values/index.h"
#include "model/families/zoo.h"
#include "model/stores/plain_store.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/ranks.h"
#include "tests/support/tiny_models.h"
#include "tests/train/runs/stage_batches.h"
#include "train/settings/observers.h"
#include "train/step/arena.h"
#include "train/step/recorder.h"
#include "zero/sharded_store.h"

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
  explicit Tokens(int data_rank = 0) : data_rank_(data_rank) {}
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    const Rng rng =
        Rng(1, "tokens").derive(static_cast<uint64_t>(1000 * data_rank_ + 10 * step + micro_step));
    const auto draw = [&](std::string_view name, uint64_t first) {
      if (!batch.has(name)) return;
      for (int32_t& value : batch.values<int32_t>(name)) {
        value = static_cast<int32_t>(rng.bits(first++) % kVocabulary);
      }
    };
    draw(batch_field::kTokens, 0);
    draw(batch_field::kTargets, 1);
  }
  int64_t first_sample(int micro_step) const override {
    return (1000 * data_rank_ + micro_step) * kSamples;
  }

 private:
  const int data_rank_;
};

struct Outcome {
  double loss = 0;
  std::map<std::string, std::vector<std::byte>> gradients;  // by parameter
  std::map<std::string, std::vector<std::byte>> other_end;  // of what two stages have
  std::map<std::string, int> stage_of;                      // whose gradient is in `gradients`
  int updates = 0;
};

// Who keeps weights and gradients, and how many ranks train on samples of their own.
struct Keeping {
  int data = 1;
  int zero_stage = -1;  // below 0: the plain store
};

// One rank of `data` pipelines over `world`.
class Rank {
 public:
  Rank(const ModelConfig& config, DType dtype, PipelineKind kind, const PipelineShape& shape,
       const Keeping& keeping, Communicator& world)
      : kind_(kind),
        shape_(shape),
        mesh_(Mesh::over(world, {.pipe = shape.stages, .data = keeping.data})),
        cpu_(world, 2) {
    if (keeping.zero_stage < 0) {
      store_ = std::make_unique<PlainStore>(cpu_.stream, 3);
    } else {
      const ZeroOptions options{.layout = {.bucket_numel = 3000},
                                .placement = {.policy = zero_policy(keeping.zero_stage)},
                                .wire = {.reduce = Reduce::kStepEnd, .micro_steps = kMicroBatches}};
      store_ = std::make_unique<ShardedStore>(
          options, mesh_, StoreStreams{cpu_.stream, cpu_.stream}, world.memory());
    }
    const int stages = shape.stages * shape.chunks;
    const int64_t layers = all_layers(config).end;
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      const int at = virtual_stage(kind, shape, mesh_.coordinate(Axis::kPipe), chunk);
      const LayerRange range{at * layers / stages, (at + 1) * layers / stages};
      stages_.push_back(make_stage(config, dtype, *store_, range));
    }
    store_->seal();
    if (ShardedStore* const zero = sharded()) zero->state().initialize(3);
  }

  // Twice: as it comes, and in the places that were planned of that. The bits are the same.
  void train(Outcome& outcome, std::mutex& mutex, RunMode mode = RunMode::kTrain) {
    const StepProgram program = step_program(kind_, shape_, mesh_.coordinate(Axis::kPipe));
    StepRecorder recorder(cpu_.stream.memory());
    const Attempt recorded = attempt(program, mode, recorder);
    const StepArenaPlan plan = plan_step_arena(recorder.record(), program.instructions);
    const Tensor block =
        Tensor::empty({narrow<int64_t>(plan.bytes_total())}, DType::kU8, cpu_.stream);
    StepArena arena(plan, block.address());
    const Attempt planned = attempt(program, mode, arena);
    test::require(planned == recorded, "by the plan, something else comes out");

    const std::lock_guard lock(mutex);
    outcome.loss += planned.loss;
    outcome.updates += planned.updates;
    if (mode != RunMode::kTrain) return;
    each_gradient([&](ParamId id, int64_t begin, const Tensor& elements) {
      put(outcome, id, begin, elements);
    });
  }

 private:
  struct Attempt {
    double loss = 0;
    int updates = 0;
    std::vector<std::byte> gradients{};
    bool operator==(const Attempt&) const = default;
  };

  Attempt attempt(const StepProgram& program, RunMode mode, StepMemory& memory) {
    if (ShardedStore* const zero = sharded()) {
      zero->step().begin();
    } else {
      plain().clear_gradients();
    }
    Communicator& pipe = mesh_.group(Axis::kPipe);
    const bool is_end = pipe.rank() == 0 || pipe.rank() == pipe.size() - 1;
    const auto ends = pipe.split(is_end ? 0 : 1, 0);
    const auto gradients = pipe.split(0, 0);
    const BatchSpec batch = testing::batch_spec_of(stages_, kSamples, kLength, mode);
    StepUploads uploads({.buffers = program.buffers, .batch_bytes = batch.bytes()}, cpu_.stream);
    StepResources place{.stream = cpu_.stream,
                        .store = *store_,
                        .uploads = uploads,
                        .loss = Tensor::zeros({1}, DType::kF64, cpu_.stream),
                        .chunks = {},
                        .micro_batch = kSamples,
                        .length = kLength,
                        .activations = &pipe,
                        .gradients = gradients.get(),
                        .ends = ends.get()};
    for (const auto& chunk : stages_) place.chunks.push_back(chunk.get());
    Tokens source(mesh_.coordinate(Axis::kData));
    Attempt result;
    const StepInput input{.source = source,
                          .batch = batch,
                          .mode = mode,
                          .weight = kTokens,
                          .dropout = Rng(9, "dropout"),
                          .memory = &memory,
                          .optimizer_step = [&] { ++result.updates; }};
    StepRunner(place, input).run(program);
    result.loss = *place.loss.data<double>();
    if (mode != RunMode::kTrain) return result;
    each_gradient([&](ParamId, int64_t, const Tensor& elements) {
      const auto* bytes = static_cast<const std::byte*>(elements.address());
      result.gradients.insert(result.gradients.end(), bytes, bytes + elements.bytes());
    });
    return result;
  }

  ShardedStore* sharded() { return dynamic_cast<ShardedStore*>(store_.get()); }
  PlainStore& plain() { return dynamic_cast<PlainStore&>(*store_); }

  // Parameter, its first element of these, the elements.
  void each_gradient(const std::function<void(ParamId, int64_t, const Tensor&)>& visit) {
    if (ShardedStore* const zero = sharded()) {
      for (const auto& group : zero->groups()) {
        for (const Shard& shard : group->shards()) {
          for (const ShardField& field : shard.fields) {
            visit(field.param, field.param_begin, shard.grad.narrow(field.offset, field.numel));
          }
        }
      }
      return;
    }
    for (ParamId id = 0; id < store_->count(); ++id) visit(id, 0, plain().gradient(id));
  }

  void put(Outcome& outcome, ParamId id, int64_t begin, const Tensor& elements) {
    const ParamSpec& spec = store_->spec(id);
    const int stage = mesh_.coordinate(Axis::kPipe);
    const bool is_first = outcome.stage_of.try_emplace(spec.name, stage).first->second == stage;
    auto& bytes = (is_first ? outcome.gradients : outcome.other_end)[spec.name];
    const size_t item = size_of(elements.dtype());
    bytes.resize(to_size(spec.shape.numel()) * item);
    std::memcpy(bytes.data() + to_size(begin) * item, elements.address(), elements.bytes());
  }

  const PipelineKind kind_;
  const PipelineShape shape_;
  Mesh mesh_;
  test::RankStream cpu_;
  std::unique_ptr<ParameterStore> store_;
  std::vector<std::unique_ptr<Stage>> stages_;
};

Outcome run(const ModelConfig& config, DType dtype, PipelineKind kind, const PipelineShape& shape,
            const Keeping& keeping = {}, RunMode mode = RunMode::kTrain) {
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(shape.stages * keeping.data, [&](Communicator& world) {
    Rank(config, dtype, kind, shape, keeping, world).train(outcome, mutex, mode);
  });
  return outcome;
}

// Sums over micro-batches depend on their order: GPipe's backward passes go from the last to the
// first, and on one rank they do too.
Outcome whole(const ModelConfig& config, DType dtype, PipelineKind kind,
              const Keeping& keeping = {}) {
  const auto alone = kind == PipelineKind::kGpipe ? kind : PipelineKind::kDataParallel;
  return run(config, dtype, alone, {.micro_batches = kMicroBatches}, keeping);
}

void check_same_gradients(const Outcome& cut, const Outcome& expected) {
  REQUIRE(cut.gradients.size() == expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    INFO(name);
    CHECK((cut.gradients.at(name) == gradient));  // without the bytes
  }
}

// This is for a table that is summed in another order.
void check_close(const std::vector<std::byte>& sum, const std::vector<std::byte>& expected) {
  const auto floats = [](const std::vector<std::byte>& bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  };
  const std::vector<float> got = floats(sum), wanted = floats(expected);
  REQUIRE(got.size() == wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    CHECK(got[i] == Approx(wanted[i]).epsilon(1e-4).margin(1e-7));
  }
}

struct Case {
  PipelineKind kind;
  int stages;
  int chunks;
};

TEST_CASE("every pipeline schedule has the bits of the whole model", "[train]") {
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
        check_same_gradients(cut, expected);
      }
    }
  }
}

TEST_CASE("pipelines side by side have the bits of whole models side by side", "[train]") {
  for (const int zero_stage : {0, 1}) {
    const Keeping keeping{.data = 2, .zero_stage = zero_stage};
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const Case& c : std::vector<Case>{{PipelineKind::k1F1B, 2, 1},
                                             {PipelineKind::kGpipe, 2, 1},
                                             {PipelineKind::kInterleaved, 2, 2},
                                             {PipelineKind::kZeroBubbleH1, 3, 1},
                                             {PipelineKind::kZeroBubbleV, 2, 2}}) {
        CAPTURE(zero_stage, name_of(dtype), to_string(c.kind), c.stages, c.chunks);
        const Outcome expected = whole(gpt2(false), dtype, c.kind, keeping);
        const Outcome cut =
            run(gpt2(false), dtype, c.kind,
                {.micro_batches = kMicroBatches, .stages = c.stages, .chunks = c.chunks}, keeping);
        CHECK(cut.loss == Approx(expected.loss));  // ranks end in any order
        CHECK(cut.other_end.empty());
        check_same_gradients(cut, expected);
      }
    }
  }
}

TEST_CASE("a table that two stages share is summed before it is reduced over data", "[train]") {
  const std::string table = "transformer.wte.weight";
  const Keeping keeping{.data = 2, .zero_stage = 1};
  const Outcome expected = whole(gpt2(true), DType::kF32, PipelineKind::k1F1B, keeping);
  const Outcome cut = run(gpt2(true), DType::kF32, PipelineKind::k1F1B,
                          {.micro_batches = kMicroBatches, .stages = 2}, keeping);
  CHECK((cut.other_end.at(table) == cut.gradients.at(table)));
  check_close(cut.gradients.at(table), expected.gradients.at(table));
}

TEST_CASE("gradients that are reduced after each micro-batch refuse a pipeline", "[train]") {
  test::run_ranks(2, [](Communicator& world) {
    test::RankStream cpu(world);
    Mesh mesh = Mesh::over(world, {.data = 2});
    ShardedStore store({.placement = {.policy = zero_policy(1)}}, mesh, {cpu.stream, cpu.stream},
                       world.memory());
    const auto stage = make_stage(llama(), DType::kF32, store, {0, 8});
    store.seal();
    store.step().begin();
    Tokens source;
    const BatchSpec batch =
        testing::batch_spec_of(std::span(&stage, 1), kSamples, kLength, RunMode::kTrain);
    StepUploads uploads({.buffers = 2, .batch_bytes = batch.bytes()}, cpu.stream);
    const StepResources place{.stream = cpu.stream,
                              .store = store,
                              .uploads = uploads,
                              .loss = Tensor::zeros({1}, DType::kF64, cpu.stream),
                              .chunks = {stage.get()},
                              .micro_batch = kSamples,
                              .length = kLength};
    const StepInput input{.source = source, .batch = batch};
    try {
      StepRunner(place, input).run(step_program(PipelineKind::kGpipe, {.micro_batches = 2}, 0));
    } catch (const Unsupported& refusal) {
      test::require(std::string(refusal.what()).find("second micro-batch") != std::string::npos,
                    "said: {}", refusal.what());
      return;
    }
    throw InternalError("GPipe went through");
  });
}

// The whole model adds the head's and the embedding's contributions in turn, a pipeline adds two
// sums, so the table itself may differ in the last bits.
TEST_CASE("both ends of a tied embedding have the sum of their gradients", "[train]") {
  const std::string table = "transformer.wte.weight";
  for (const int stages : {2, 3}) {
    const Outcome expected = whole(gpt2(true), DType::kF32, PipelineKind::k1F1B);
    Outcome cut = run(gpt2(true), DType::kF32, PipelineKind::k1F1B,
                      {.micro_batches = kMicroBatches, .stages = stages});
    CHECK(cut.other_end.size() == 1);
    CHECK((cut.other_end.at(table) == cut.gradients.at(table)));
    check_close(cut.gradients.at(table), expected.gradients.at(table));
    cut.gradients[table] = expected.gradients.at(table);
    CHECK((cut.gradients == expected.gradients));
  }
}

TEST_CASE("forward only, a pipeline has the losses of the whole model", "[train]") {
  const ModelConfig config = gpt2(true);
  const auto evaluate = [&](int stages) {
    return run(config, DType::kF32, PipelineKind::kInference,
               {.micro_batches = kMicroBatches, .stages = stages}, {}, RunMode::kEval);
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
  StepResources place() {
    return {.stream = cpu.stream,
            .store = store,
            .uploads = uploads,
            .loss = Tensor::zeros({1}, DType::kF64, cpu.stream),
            .chunks = {stage.get()},
            .micro_batch = kSamples,
            .length = kLength};
  }

  testing::CpuStream cpu;
  PlainStore store;
  std::unique_ptr<Stage> stage;
  BatchSpec batch =
      testing::batch_spec_of(std::span(&stage, 1), kSamples, kLength, RunMode::kTrain);
  StepUploads uploads{{.buffers = 2, .batch_bytes = batch.bytes()}, cpu.stream};
  Tokens source;
};

TEST_CASE("messages need the group of the pipe axis", "[train]") {
  Alone first({0, 4});
  const StepResources place = first.place();
  const StepInput input{.source = first.source, .batch = first.batch};
  const StepProgram program =
      step_program(PipelineKind::k1F1B, {.micro_batches = 2, .stages = 2}, 0);
  CHECK_THROWS_AS(StepRunner(place, input).run(program), Unsupported);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("pipeline parallelism: SendActivation"));
}

TEST_CASE("an update needs somebody who makes it, after every micro-batch", "[train]") {
  Alone model({0, 8});
  const StepResources place = model.place();
  const StepInput input{.source = model.source, .batch = model.batch};
  StepProgram program = step_program(PipelineKind::kDataParallel, {}, 0);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program), Catch::Contains("nobody makes it"));
  REQUIRE(program.instructions[2].op == PipelineOp::kBackwardPass);
  program.instructions.erase(program.instructions.begin() + 2);
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("micro-batch 0 is not finished"));
}

TEST_CASE("a buffer has one micro-batch at a time", "[train]") {
  Alone model({0, 8});
  const StepResources place = model.place();
  const StepInput input{.source = model.source, .batch = model.batch};
  const StepProgram program{
      .instructions = {{.op = PipelineOp::kLoadMicroBatch, .buffer = 0, .micro_batch = 0},
                       {.op = PipelineOp::kLoadMicroBatch, .buffer = 0, .micro_batch = 1}},
      .buffers = 1};
  CHECK_THROWS_WITH(StepRunner(place, input).run(program),
                    Catch::Contains("finds micro-batch 0 in its buffer"));
}

TEST_CASE("who watches hears of every micro-step before it begins", "[train]") {
  struct Heard final : StepObserver {
    void before_micro_step(int64_t steps_done, int micro_step) override {
      steps.emplace_back(steps_done, micro_step);
    }
    std::vector<std::pair<int64_t, int>> steps;
  } heard;
  Alone model({0, 8});
  const StepResources place = model.place();
  const StepInput input{.source = model.source,
                        .batch = model.batch,
                        .step = 4,
                        .observer = &heard,
                        .optimizer_step = [&] { CHECK(heard.steps.size() == 3); }};
  StepRunner(place, input).run(step_program(PipelineKind::kDataParallel, {.micro_batches = 3}, 0));
  CHECK(heard.steps == std::vector<std::pair<int64_t, int>>{{4, 0}, {4, 1}, {4, 2}});
}

}  // namespace
}  // namespace ds
