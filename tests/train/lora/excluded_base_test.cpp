// Checkpoints of adapters without their base: nothing of it is in them, a run goes on from them
// anywhere as from whole ones, and what is not there is named.
#include "checkpoint/reader.h"
#include "tests/train/lora/adapted.h"
#include "train/frozen_of_tag.h"

namespace ds {
namespace {

using namespace testing;

const std::vector<std::string> kSome{"llama_lora", "llama_dora", "llama_saved", "gpt2_lora",
                                     "llama_nf4"};

std::string base_of(const std::string& name) {
  return name.ends_with("nf4") ? R"(, "base_format": "nf4", "double_quantization": false)" : "";
}

std::string key(bool excludes) {
  return fmt::format(R"(, "checkpoint": {{"exclude_frozen_parameters": {}}})", excludes);
}

// Goes on in its run directory until so many steps are done, and saves; returns what it owns.
std::map<std::string, std::vector<float>> go_on(Adapted& adapted, const Shares& share,
                                                int64_t until) {
  GoldenFolder& run = adapted.run();
  adapted.open();
  Config config = run.config;
  config.zero_optimization.stage = share.stage;
  config.gradient_accumulation_steps = share.micro_steps;
  const ModelConfig model = model_config(config, run.files);
  MeshSizes sizes = share.sizes;
  sizes.data = share.ranks / sizes.pipe;
  const EngineOptions options = engine_options(config, model, sizes.data);
  const RunPlan plan = dry_run(options, sizes, {});
  const BatchShape batch = batch_shape(config, sizes.data);
  Outcome outcome;
  std::mutex mutex;
  test::run_ranks(share.ranks, [&](Communicator& comm) {
    with_rank(
        comm, HostAccess::kAlways,
        [&](auto& rank) {
          Engine engine(options, rank.resources(), plan.of_rank(comm.rank()).step);
          JobPlan job;
          job.rank = comm.rank();
          job.world_size = comm.size();
          job.run_dir = "/run";
          Checkpointing checkpoints(engine, run.files, job, {});
          engine.restore_step(checkpoints.load(run.folder));
          const auto source = adapted.source(place_of(engine.mesh()), batch);
          train_until(engine, *source, until);
          checkpoints.save();
          collect(engine, outcome, mutex);
        },
        Devices::kShared, plan.mesh);
  });
  return outcome.state;
}

CheckpointReader reader_of(Adapted& adapted, int64_t step) {
  return CheckpointReader::open(adapted.run().files, "/run/checkpoints",
                                fmt::format("global_step{}", step));
}

TEST_CASE("a run of adapters goes on anywhere from checkpoints without their base", "[train]") {
  for (const std::string& name : kSome) {
    Adapted straight(name, "", base_of(name));
    const auto whole = go_on(straight, {.ranks = 2, .stage = 3}, 4);
    for (const Shares& next :
         {Shares{.micro_steps = 2}, Shares{.ranks = 2, .stage = 3}, Shares{.ranks = 2, .stage = 1},
          Shares{.ranks = 2, .micro_steps = 2, .sizes = {.pipe = 2}}}) {
      CAPTURE(name, next.ranks, next.stage, next.sizes.pipe);
      Adapted adapted(name, "", base_of(name));
      go_on(adapted, {.ranks = 2, .stage = 3}, 2);
      CHECK(go_on(adapted, next, 4) == whole);
    }
  }
}

TEST_CASE("a checkpoint of adapters has what trains alone, unless it is to be whole", "[train]") {
  for (const std::string& name : kSome) {
    CAPTURE(name);
    Adapted brief(name, "", base_of(name)), full(name, key(false), base_of(name));
    go_on(brief, {}, 1);
    go_on(full, {}, 1);
    const ModelConfig model = model_config(brief.run().config, brief.run().files);
    const CheckpointReader without = reader_of(brief, 1), with = reader_of(full, 1);
    for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
      CAPTURE(spec.name);
      CHECK(without.contains(spec.name + "/weight") == spec.trains);
      CHECK(with.contains(spec.name + "/weight"));
    }
    CHECK(lacks_frozen(without, specs_of_model(model, DType::kF32)));
    CHECK_FALSE(lacks_frozen(with, specs_of_model(model, DType::kF32)));
    // One that has lost a weight has not been made without.
    std::vector<ParamSpec> one_more = specs_of_model(model, DType::kF32);
    one_more.push_back({.name = "lost", .shape = {1}, .trains = false});
    CHECK_FALSE(lacks_frozen(with, one_more));
  }
}

TEST_CASE("a run goes on from a checkpoint of either kind, whatever it saves itself", "[train]") {
  for (const bool before : {false, true}) {
    const std::string name = "llama_nf4";
    Adapted straight(name, key(before), base_of(name));
    const auto whole = go_on(straight, {.micro_steps = 2}, 4);
    Adapted adapted(name, key(before), base_of(name));
    go_on(adapted, {.micro_steps = 2}, 2);
    adapted.run().config.checkpoint.exclude_frozen_parameters = !before;
    CAPTURE(before);
    CHECK(go_on(adapted, {.ranks = 2, .stage = 2}, 4) == whole);
    CHECK(reader_of(adapted, 4).contains("model.layers.0.mlp.up_proj.weight/weight") == before);
  }
}

TEST_CASE("a base that is gone is named where a checkpoint needs it", "[train]") {
  Adapted adapted("llama_lora");
  GoldenFolder& run = adapted.run();
  go_on(adapted, {}, 1);
  const ModelConfig model = model_config(run.config, run.files);
  const CheckpointReader reader = reader_of(adapted, 1);
  const FrozenOfTag frozen(run.files, reader, model, {.tag = "/run/tag", .folder = run.folder});
  for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
    CHECK(frozen.has(spec.name) == !spec.trains);
  }
  std::vector<float> values(4);
  Tensor range = Tensor::borrow(values.data(), {4}, DType::kF32);
  frozen.read("model.norm.weight", 2, range);
  const HfWeights stored(run.files, run.folder,
                         specs_of_model(base_model(run.config.model, run.files), DType::kF32));
  std::vector<float> wanted(4);
  Tensor into = Tensor::borrow(wanted.data(), {4}, DType::kF32);
  const auto specs = specs_of_model(base_model(run.config.model, run.files), DType::kF32);
  const auto norm = std::ranges::find(specs, "model.norm.weight", &ParamSpec::name);
  stored.read(static_cast<size_t>(norm - specs.begin()), 2, into);
  CHECK(values == wanted);
  CHECK_THROWS_WITH(FrozenOfTag(run.files, reader, model, {.tag = "/run/tag", .folder = "/gone"}),
                    Catch::Contains("/run/tag: it has what trained alone") &&
                        Catch::Contains("model.folder, /gone"));
  run.files.remove(run.folder + "/model.safetensors");
  CHECK_THROWS_WITH(go_on(adapted, {}, 2),
                    Catch::Contains("model.safetensors") || Catch::Contains(run.folder));
}

}  // namespace
}  // namespace ds
