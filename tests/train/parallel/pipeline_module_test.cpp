// A list of layers as the engine trains it: the losses and weights of one rank by every cut and
// schedule, tied parameters and recomputed layers included; checkpoints of any cut; what is
// refused.
#include <numeric>

#include "examples/pipeline_module/layers.h"
#include "model/stores/plain_store.h"
#include "tests/support/cpu_stream.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;
using example::described;

constexpr int64_t kTokens = 6, kVocabulary = 29, kWidth = 16;

class Lookup final : public PipelineLayer {
 public:
  explicit Lookup(const BuildContext& build)
      : dtype_(build.dtype),
        spec_({.table = build.table("weight", {kVocabulary, kWidth}, normal(0.2)),
               .width = kWidth}) {}
  Var forward(Context& context, const LayerInput& in) const override {
    return embed(context,
                 {.tokens = in.value.value, .order = in.order, .rows = {.length = kTokens}}, dtype_,
                 spec_);
  }

 private:
  const DType dtype_;
  const EmbeddingSpec spec_;
};

class SquaredError final : public PipelineLoss {
 public:
  explicit SquaredError(const BuildContext&) {}
  Tensor losses(Context& context, const LayerInput& in, const Tensor& labels,
                float grad_scale) const override {
    const Tensor& y = in.value.value;
    Tensor losses = Tensor::empty({y.numel()}, DType::kF32, context.stream);
    Tensor dy = Tensor::empty(y.shape(), DType::kF32, context.stream);
    for (int64_t i = 0; i < y.numel(); ++i) {
      const float apart = y.data<float>()[i] - labels.data<float>()[i];
      losses.data<float>()[i] = apart * apart;
      dy.data<float>()[i] = 2 * apart * grad_scale;
    }
    context.record("loss", {&in.value, 1}, {},
                   [dy](GradientFlow& flow) mutable { flow.give(0, std::move(dy)); });
    return losses;
  }
};

using Module = std::shared_ptr<const PipelineModule>;

PipelineModuleParts parts_of_tokens(int blocks, int64_t interval) {
  PipelineModuleParts parts{
      .input = {.shape = {kTokens}, .dtype = DType::kI32},
      .label = {.shape = {kTokens}, .dtype = DType::kI32},
      .layers = {tied("table", described<Lookup, PipelineLayer>("Lookup"))},
      .loss = tied("table", described<example::Classes, PipelineLoss>("Head", kWidth, kVocabulary)),
      .losses_per_sample = kTokens,
      .activation_checkpoint_interval = interval};
  for (int i = 0; i < blocks; ++i) {
    parts.layers.push_back(described<example::Mlp, PipelineLayer>("Mlp", kWidth, 2 * kWidth));
    parts.layers.push_back(described<example::LayerNorm, PipelineLayer>("Norm", kWidth));
  }
  return parts;
}

Module tokens(int blocks = 4, int64_t interval = 0) {
  return std::make_shared<const PipelineModule>(parts_of_tokens(blocks, interval));
}

// This module is of vectors, whose widths change from layer to layer; it has more elements in than
// labels.
Module vectors() {
  PipelineModuleParts parts{.input = {.shape = {2, 4}},
                            .label = {.shape = {2, 3}},
                            .layers = {},
                            .loss = described<SquaredError, PipelineLoss>("SquaredError"),
                            .losses_per_sample = 6};
  const std::vector<int64_t> widths{4, 12, 8, 10, 3};
  for (size_t i = 0; i + 1 < widths.size(); ++i) {
    parts.layers.push_back(
        described<example::Linear, PipelineLayer>("Linear", widths[i], widths[i + 1]));
  }
  return std::make_shared<const PipelineModule>(std::move(parts));
}

class Samples final : public BatchSource {
 public:
  Samples(const EngineOptions& options, int rank, int ranks)
      : options_(options), rank_(rank), ranks_(ranks) {}
  void fill(int64_t step, int micro_step, const MicroBatch& batch) override {
    const PipelineModuleParts& parts = options_.module->parts();
    const int64_t first = step * 100 + first_sample(micro_step);
    const auto put = [&](std::string_view name, const SampleSpec& of, int64_t begin) {
      if (!batch.has(name)) return;
      const int64_t numel = of.shape.numel();
      for (int64_t i = 0; i < options_.micro_batch * numel; ++i) {
        const int64_t k = (first + i / numel) * kTokens + i % numel + begin;
        const auto value = static_cast<int32_t>(k * k * 7 % kVocabulary);
        if (of.dtype == DType::kI32) {
          batch.values<int32_t>(name)[to_size(i)] = value;
        } else {
          batch.values<float>(name)[to_size(i)] = static_cast<float>(value) / 29.0F;
        }
      }
    };
    put(batch_field::kInputs, parts.input, 0);
    put(batch_field::kLabels, parts.label, 1);
  }
  int64_t first_sample(int micro_step) const override {
    return (micro_step * ranks_ + rank_) * options_.micro_batch;
  }

 private:
  const EngineOptions& options_;
  const int rank_, ranks_;
};

struct Cut {
  int pipe = 1;
  int data = 1;
  PipelineChoice pipeline{};
  int stage = 0;
};

EngineOptions options_for(const Module& module, const Cut& cut) {
  EngineOptions options = options_of({.ranks = cut.data, .stage = cut.stage, .micro_steps = 4});
  options.module = module;
  options.dtype = module->parts().dtype;
  options.length = 1;
  options.micro_batch = 4 / cut.data;
  options.pipeline = cut.pipeline;
  return options;
}

Outcome run(const Module& module, const Cut& cut, FileSystem& files, int64_t until) {
  const EngineOptions options = options_for(module, cut);
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(cut.pipe * cut.data, [&](Communicator& world) {
    Connections connections = Connections::over(world, {.pipe = cut.pipe, .data = cut.data});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    Engine engine(options, workspace.resources(), std::nullopt);
    JobPlan job;
    job.rank = world.rank();
    job.world_size = world.size();
    job.run_dir = "/run";
    Checkpointing checkpoints(engine, files, job, {});
    engine.restore_step(checkpoints.load(std::nullopt));
    const Mesh& mesh = engine.mesh();
    Samples source(options, mesh.coordinate(Axis::kData), mesh.size(Axis::kData));
    for (const StepResult& result : train_until(engine, source, until)) {
      if (world.rank() == 0) outcome.losses.push_back(result.metrics.at("loss"));
    }
    const double loss = engine.evaluate(source, 1);
    if (world.rank() == 0) outcome.validation_loss = loss;
    checkpoints.save();
    collect(engine, outcome, mutex);
  });
  return outcome;
}

Outcome run(const Module& module, const Cut& cut) {
  MemoryFileSystem disk;
  return run(module, cut, disk, 4);
}

TEST_CASE("a list of layers has the losses of one rank on any stages", "[train]") {
  for (const Module& module : {tokens(), vectors()}) {
    const Outcome alone = run(module, {});
    CHECK(alone.losses.back() < alone.losses.front());
    for (const Cut& cut :
         {Cut{.pipe = 2}, Cut{.pipe = 4}, Cut{.pipe = 2, .data = 2, .stage = 1},
          Cut{.pipe = 2, .pipeline = {.schedule = PipelineKind::kGpipe, .partition = "uniform"}},
          Cut{.pipe = 2, .pipeline = {.schedule = PipelineKind::kInterleaved, .chunks = 2}},
          Cut{.pipe = 4, .pipeline = {.schedule = PipelineKind::kZeroBubbleH1}}}) {
      CAPTURE(module->layer_count(), cut.pipe, to_string(cut.pipeline.schedule));
      require_near(run(module, cut), alone, 1e-6);
    }
  }
  const Outcome alone = run(vectors(), {});
  const PipelineChoice both_ends{.schedule = PipelineKind::kZeroBubbleV, .chunks = 2};
  require_near(run(vectors(), {.pipe = 2, .pipeline = both_ends}), alone, 1e-6);
}

TEST_CASE("a list of layers is trained by every stage of ZeRO, and in bf16", "[train]") {
  const Outcome alone = run(tokens(), {});
  for (const int stage : {1, 2, 3}) {
    CAPTURE(stage);
    require_near(run(tokens(), {.data = 2, .stage = stage}), alone, 1e-6);
  }
  PipelineModuleParts parts = parts_of_tokens(4, 2);
  parts.dtype = DType::kBF16;
  const auto rounded = std::make_shared<const PipelineModule>(std::move(parts));
  const Outcome of_bf16 = run(rounded, {});
  require_losses_near(of_bf16, alone, 2e-2);
  CHECK(run(rounded, {.pipe = 2}).losses.front() == of_bf16.losses.front());
  require_losses_near(run(rounded, {.pipe = 2}), of_bf16, 2e-3);
}

TEST_CASE("layers that are run again have the same bits", "[train]") {
  const Outcome kept = run(tokens(), {.pipe = 2});
  for (const int64_t interval : {1, 2, 7}) {
    CAPTURE(interval);
    const Outcome again = run(tokens(4, interval), {.pipe = 2});
    CHECK(again.losses == kept.losses);
    CHECK(again.state == kept.state);
  }
}

TEST_CASE("a list of layers goes on with other stages", "[train]") {
  MemoryFileSystem disk, same;
  run(tokens(), {.pipe = 4}, disk, 2);
  run(tokens(), {}, same, 2);
  require_near(run(tokens(), {.pipe = 2}, disk, 4), run(tokens(), {}, same, 4), 1e-6);
}

TEST_CASE("a stage has its own layers alone, by the names of the whole", "[train]") {
  const Module module = tokens();
  const std::vector<LayerRange> ranges = module->cut("type:mlp", 2);
  REQUIRE(ranges.size() == 2);
  std::set<std::string> names;
  int64_t uses_of_table = 0;
  for (const LayerRange& range : ranges) {
    testing::CpuStream cpu;
    PlainStore store(cpu.stream, 1);
    const auto stage = module->make_stage(store, range);
    CHECK(stage->shared_params().size() == 1);
    for (ParamId id = 0; id < store.count(); ++id) {
      const std::string& name = store.spec(id).name;
      names.insert(name);
      uses_of_table += name == "tied.table.weight" ? 1 : 0;
      if (!name.starts_with("layers.")) continue;
      CHECK(range.has(std::stoi(name.substr(7))));
    }
  }
  CHECK(uses_of_table == 2);
  CHECK(std::ssize(names) == std::ssize(module->specs()));
}

TEST_CASE("lists of layers that cannot be are refused in words", "[train]") {
  PipelineModuleParts middle = parts_of_tokens(2, 0);
  middle.layers[1] = tied("mlp", middle.layers[1]);
  middle.layers[3] = tied("mlp", middle.layers[3]);
  const PipelineModule tied_inside(middle);
  CHECK_THROWS_WITH(tied_inside.cut("uniform", 5), Catch::Contains("is in stage 1 of 5"));
  CHECK_NOTHROW(tied_inside.cut("uniform", 1));
  CHECK_THROWS_WITH(tokens(1)->cut("best", 4), Catch::Contains("3 layers in 4 parts"));
  CHECK_THROWS_WITH(
      run(tokens(), {.pipe = 2, .pipeline = {.schedule = PipelineKind::kZeroBubbleV, .chunks = 2}}),
      Catch::Contains("cannot be tied"));
  PipelineModuleParts other = parts_of_tokens(2, 0);
  other.layers[1] = described<example::Mlp, PipelineLayer>("Mlp", kWidth + 1, kWidth);
  CHECK_THROWS(PipelineModule(other));
  PipelineModuleParts unequal = parts_of_tokens(1, 0);
  unequal.loss =
      tied("table", described<example::Classes, PipelineLoss>("Head", kWidth, kVocabulary + 1));
  CHECK_THROWS_WITH(PipelineModule(unequal), Catch::Contains("layers tied by 'table'"));
  CHECK_THROWS_WITH(run(tokens(), {.pipe = 2, .data = 2, .stage = 3}),
                    Catch::Contains("stage 0 or 1"));
  CHECK_THROWS_WITH(dry_run(options_for(tokens(), {}), {.data = 1}, {}),
                    Catch::Contains("without a plan"));
}

}  // namespace
}  // namespace ds
