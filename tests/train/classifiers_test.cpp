// Texts, and words, that are each of a class, and texts of numbers or of several classes: from the
// keys of a configuration and the records of a file to the losses, weights and accuracy that
// Hugging Face's models have (tests/golden/classifiers, tests/golden/token_classifiers).
#include <rapidjson/document.h>

#include <algorithm>
#include <filesystem>

#include "config/load.h"
#include "model/hf/weights.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"
#include "tests/support/test_stream.h"
#include "tests/train/heard_reports.h"
#include "tests/train/runs/small_run.h"
#include "train/assemble.h"
#include "train/evaluation.h"

namespace ds {
namespace {

using namespace testing;

struct GoldenRun {
  GoldenRun(const std::string& list, const std::string& family) {
    copy_from(source_directory() + "/tests/golden/" + list + "/" + family);
    golden.Parse(files.read_text(folder + "/golden.json", 1 << 20).c_str());
    REQUIRE_FALSE(golden.HasParseError());
    config = parse_config(files.read_text(folder + "/train.json", 1 << 20));
    config.model.folder = folder;
    const std::filesystem::path data(config.data.train.front());
    config.data.train = {folder + "/" + data.filename().string()};
    config.data.validation = config.data.train;
    config.data.tokenizer = folder;
  }
  double wanted(const char* name) const { return golden[name].GetDouble(); }
  double wanted(const char* list, size_t step) const {
    return golden[list][static_cast<rapidjson::SizeType>(step)].GetDouble();
  }

  // Checkpoints are looked for beside it, where nobody finds one.
  void copy_from(const std::string& path) {
    RealFileSystem disk;
    files.make_directories(folder);
    for (const auto& entry : std::filesystem::directory_iterator(path)) {
      const auto file = disk.open(entry.path().string());
      std::vector<std::byte> bytes(to_size(file->size()));
      file->read(0, bytes);
      files.create(folder + "/" + entry.path().filename().string())->append(bytes);
    }
  }

  MemoryFileSystem files;
  const std::string folder = "/golden";
  Config config;
  rapidjson::Document golden;
};

struct Shares {
  int ranks = 1;
  int stage = 0;
  int micro_steps = 1;
  MeshSizes sizes{};
};

struct Got {
  std::vector<double> losses, norms;
  Metrics evaluation;
  double apart = 0;  // the share of weights that are others than those after the last step
};

SamplePlace place_of(const Mesh& mesh) {
  return {.rank = mesh.coordinate(Axis::kData),
          .part = mesh.coordinate(Axis::kSequence),
          .parts = mesh.size(Axis::kSequence)};
}

// Biases of keys have gradients that are nothing but rounding, and Adam makes whole updates of
// them.
double apart_of(GoldenRun& run, Engine& engine) {
  CpuStream host;
  std::vector<ParamSpec> specs;
  for (ParamId id = 0; id < engine.store().count(); ++id) specs.push_back(engine.store().spec(id));
  const HfWeights weights(run.files, run.folder + "/final.safetensors", specs);
  double apart = 0, all = 0;
  for (ParamId id = 0; id < engine.store().count(); ++id) {
    Tensor flat = Tensor::empty({nth(specs, id).shape.numel()}, DType::kF32, host.stream);
    weights.read(to_size(id), 0, flat);
    const Lease lease = engine.store().acquire(id);
    const std::vector<float> got = floats_of(lease.weight());
    for (size_t i = 0; i < got.size(); ++i) {
      if (std::abs(double{got[i]} - double{flat.data<float>()[i]}) > 1e-5) ++apart;
    }
    all += static_cast<double>(got.size());
  }
  return apart / all;
}

// `share`: of batches and layers among ranks.
Got train_classes(GoldenRun& run, const Shares& share) {
  Config config = run.config;
  config.zero_optimization.stage = share.stage;
  config.gradient_accumulation_steps = share.micro_steps;
  const ModelConfig model = model_config(config.model, run.files);
  MeshSizes sizes = share.sizes;
  sizes.data = share.ranks / sizes.pipe / sizes.sequence / sizes.tensor;
  EngineOptions options = engine_options(config, model, sizes.data);
  const RunPlan plan = dry_run(options, sizes, {});
  const TrainingData data = open_data(config.data, model, run.files);
  const BatchShape batch = batch_shape(config, sizes.data);
  Got got;
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
          checkpoints.load(run.folder);
          const std::unique_ptr<BatchSource> source = make_sample_source(
              data.train, Sampler(data.train.size(), SampleOrder::kSequential, 0), batch,
              place_of(engine.mesh()), {.scored = data.scored});
          for (const StepResult& result : train_until(engine, *source, *config.train.steps)) {
            if (comm.rank() != 0) continue;
            got.losses.push_back(result.metrics.at("loss"));
            got.norms.push_back(result.metrics.at("grad_norm"));
          }
          HeardReports heard;
          Evaluation evaluation(engine, heard, *data.validation,
                                {.place = place_of(engine.mesh()),
                                 .scored = data.scored,
                                 .shape = {.micro_batch = batch.micro_batch, .ranks = batch.ranks},
                                 .schedule = {.last_step = *config.train.steps}});
          Metrics metrics;
          evaluation.after(*config.train.steps, metrics);
          if (comm.rank() == 0) got.evaluation = metrics;
          if (share.ranks == 1) got.apart = apart_of(run, engine);
        },
        Devices::kShared, plan.mesh);
  });
  return got;
}

TEST_CASE("classes of texts and of words are learnt as Hugging Face's models learn them",
          "[train]") {
  const auto list = GENERATE(as<std::string>(), "classifiers", "token_classifiers");
  const auto family =
      GENERATE(as<std::string>(), "bert", "roberta", "modernbert", "modernbert_mean", "llama",
               "gpt2", "distilbert", "bert_number", "llama_number", "modernbert_mean_numbers",
               "roberta_several", "gpt2_several");
  if (list == "token_classifiers" && family.find('_') != std::string::npos) return;  // of texts
  GoldenRun run(list, family);
  const bool has_one_class = run.golden.HasMember("validation_accuracy");
  for (const Shares& share :
       {Shares{}, Shares{.micro_steps = 4}, Shares{.ranks = 2, .stage = 2, .micro_steps = 2},
        Shares{.ranks = 4, .stage = 3}, Shares{.ranks = 2, .stage = 1, .sizes = {.tensor = 2}},
        Shares{.ranks = 4, .micro_steps = 2, .sizes = {.pipe = 4}}}) {
    CAPTURE(list, family, share.ranks, share.stage, share.micro_steps);
    const Got got = train_classes(run, share);
    REQUIRE(got.losses.size() == 5);
    for (size_t step = 0; step < got.losses.size(); ++step) {
      CAPTURE(step);
      // A loss is the mean over a few rows alone, whose rounding other processors do otherwise, and
      // which a square doubles.
      const double later = has_one_class ? 3e-6 : 1e-5;
      CHECK(got.losses[step] ==
            Approx(run.wanted("losses", step)).epsilon(step == 0 ? 1e-6 : later));
      CHECK(got.norms[step] == Approx(run.wanted("grad_norms", step)).epsilon(1e-4));
    }
    CHECK(got.apart < 0.01);
    CHECK(got.evaluation.at("validation_loss") ==
          Approx(run.wanted("validation_loss")).epsilon(has_one_class ? 3e-6 : 1e-5));
    REQUIRE(got.evaluation.has("validation_accuracy") == has_one_class);
    if (has_one_class) {
      CHECK(got.evaluation.at("validation_accuracy") ==
            Approx(run.wanted("validation_accuracy")).epsilon(1e-6));
    }
  }
}

}  // namespace
}  // namespace ds
