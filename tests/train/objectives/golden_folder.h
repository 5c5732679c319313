// A golden run of Hugging Face's, as a folder with a train.json: trained on any mesh.
#pragma once

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
#include "tests/train/runs/small_run.h"
#include "train/assemble.h"
#include "train/batches/sample_source.h"

namespace ds::testing {

struct GoldenFolder {
  GoldenFolder(const std::string& list, const std::string& family) {
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
  // A folder that others train, too, by settings of its own.
  GoldenFolder(const std::string& path, Config settings) : config(std::move(settings)) {
    copy_from(path);
    config.model.folder = folder;
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
      if (!entry.is_regular_file()) continue;
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
  std::vector<Metrics> steps;
  Metrics last;  // of the last step
  Metrics evaluation;
  double apart = 0;  // the share of weights that are others than those after the last step
};

inline SamplePlace place_of(const Mesh& mesh) {
  return {.rank = mesh.coordinate(Axis::kData),
          .part = mesh.coordinate(Axis::kSequence),
          .parts = mesh.size(Axis::kSequence),
          .ring = mesh.size(Axis::kRing)};
}

// Biases of keys have gradients that are nothing but rounding, and Adam makes whole updates of
// them.
inline double apart_of(GoldenFolder& run, Engine& engine) {
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

// What a run is trained on, and what comes after it.
struct GoldenTraining {
  std::function<std::unique_ptr<BatchSource>(const SamplePlace& place, const BatchShape& batch)>
      source;
  // Before the first step, when the engine has its weights.
  std::function<void(Engine& engine, const SamplePlace& place)> prepare = [](Engine&,
                                                                             const SamplePlace&) {};
  std::function<void(Engine& engine, const BatchShape& batch, Metrics& metrics)> evaluate =
      [](Engine&, const BatchShape&, Metrics&) {};
};

// `share`: of batches and layers among ranks.
inline Got train_folder(GoldenFolder& run, const Shares& share, const GoldenTraining& training) {
  Config config = run.config;
  config.zero_optimization.stage = share.stage;
  config.gradient_accumulation_steps = share.micro_steps;
  const ModelConfig model = training_model(config, run.files);
  MeshSizes sizes = share.sizes;
  sizes.data = share.ranks / sizes.pipe / sizes.sequence / sizes.tensor;
  EngineOptions options = engine_options(config, model, sizes.data);
  const RunPlan plan = dry_run(options, sizes, {});
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
          training.prepare(engine, place_of(engine.mesh()));
          const auto source = training.source(place_of(engine.mesh()), batch);
          for (const StepResult& result : train_until(engine, *source, *config.train.steps)) {
            if (comm.rank() != 0) continue;
            got.losses.push_back(result.metrics.at("loss"));
            got.norms.push_back(result.metrics.at("grad_norm"));
            got.last = result.metrics;
            got.steps.push_back(result.metrics);
          }
          Metrics metrics;
          training.evaluate(engine, batch, metrics);
          if (comm.rank() == 0) got.evaluation = metrics;
          const bool has_final = run.files.exists(run.folder + "/final.safetensors");
          if (share.ranks == 1 && has_final) got.apart = apart_of(run, engine);
        },
        Devices::kShared, plan.mesh);
  });
  return got;
}

}  // namespace ds::testing
