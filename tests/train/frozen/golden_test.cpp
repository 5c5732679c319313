// Runs of which a part trains, by PyTorch with requires_grad off for the rest (made once by
// ../golden/frozen_gpt2.py), made here by the engine at every stage of ZeRO and over every axis.
#include "tests/support/golden.h"

#include <cmath>

#include "config/reader/json_reader.h"
#include "config/reader/value.h"
#include "core/files/file.h"
#include "model/families/zoo.h"
#include "tests/train/offload/offload_settings.h"
#include "train/settings/frozen_names.h"

namespace ds {
namespace {

using namespace testing;

struct GoldenRun {
  std::string name;
  TrainedChoice choice;
  int64_t trained = 0;
  std::vector<double> losses, norms;
};

std::vector<GoldenRun> read_golden() {
  RealFileSystem files;
  const std::string path = source_directory() + "/tests/train/golden/frozen_gpt2.json";
  const Value all =
      read_config_document(R"({"runs": )" + files.read_text(path, 1 << 20) + "}", path);
  const auto texts = [](const Value& list) {
    std::vector<std::string> out;
    for (const Value& item : list.items()) out.push_back(item.as_string());
    return out;
  };
  const auto numbers = [](const Value& list) {
    std::vector<double> out;
    for (const Value& item : list.items()) out.push_back(item.as_number());
    return out;
  };
  std::vector<GoldenRun> runs;
  for (const Value& run : all.find("runs")->items()) {
    runs.push_back({.name = std::string(run.find("name")->as_string()),
                    .choice = {.train_only = texts(*run.find("train_only")),
                               .freeze = texts(*run.find("freeze"))},
                    .trained = static_cast<int64_t>(run.find("trained")->as_number()),
                    .losses = numbers(*run.find("losses")),
                    .norms = numbers(*run.find("norms"))});
  }
  return runs;
}

// As first_value() of the script.
float first_value(const std::string& name, int64_t index) {
  const bool is_bias = name.ends_with("bias");
  if (is_bias || name.find("ln_") != std::string::npos) return is_bias ? 0.0F : 1.0F;
  uint32_t seed = 0;
  for (const char letter : name) seed += static_cast<unsigned char>(letter);
  uint32_t h = static_cast<uint32_t>(index) * 2654435761U + seed * 40503U;
  h = (h ^ (h >> 15U)) * 2246822519U;
  const auto thousandths = static_cast<int32_t>((h ^ (h >> 13U)) % 2001U) - 1000;
  return static_cast<float>(0.0003 * thousandths);
}

void each_weight(Engine& engine, Visit what,
                 const std::function<void(const ParamSpec&, int64_t index, float& value)>& look) {
  engine.store().state().visit_owned(what, [&](OwnedPart& part) {
    for (const ShardField& field : part.fields) {
      const ParamSpec& spec = engine.store().spec(field.param);
      const Region region = spec.region(field.param_begin, field.param_begin + field.numel);
      auto* const values = part.master.data<float>() + field.offset;
      for (const Run& run : runs_of(region, spec.logical_shape())) {
        for (int64_t i = 0; i < run.numel; ++i) look(spec, run.first + i, values[run.inside + i]);
      }
    }
  });
}

struct Seen {
  std::vector<double> losses, norms;
};

Seen run(const Setting& setting) {
  EngineOptions options = options_of(setting);
  options.optimizer.adam.lr = 0.001;
  options.optimizer.adam.eps = 1e-4;  // with which no update is made of rounding alone
  options.schedule = {};
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  const TemporaryDirectory swap;
  Seen seen;
  test::run_ranks(setting.ranks, [&](Communicator& comm) {
    Connections connections = Connections::over(comm, plan.mesh);
    Workspace workspace(Device::cpu(), 1, connections.peers());
    RankResources resources = workspace.resources();
    const auto opener = [&](const char* of) {
      return swap_opener({.nvme_path = swap.path().string(),
                          .of = of,
                          .owner = {.job = "test", .rank = comm.rank(), .world = comm.size()}});
    };
    resources.open_weight_swap = opener("parameters");
    resources.open_state_swap = opener("state");
    Engine engine(options, resources, plan.of_rank(comm.rank()).step);
    each_weight(engine, Visit::kRestore, [](const ParamSpec& spec, int64_t index, float& value) {
      value = first_value(spec.name, index);
    });
    engine.store().state().restore_from_owned();
    CountingSource source(options, engine.mesh());
    for (int step = 0; step < 5; ++step) {
      const StepResult result = train_step(engine, source);
      if (comm.rank() != 0) continue;
      seen.losses.push_back(result.metrics.at("loss"));
      seen.norms.push_back(result.metrics.at("grad_norm"));
    }
    bool trains = false;
    each_weight(engine, Visit::kSave, [&](const ParamSpec& spec, int64_t index, float& value) {
      const bool same = value == first_value(spec.name, index);
      test::require(spec.trains || same, "{} is frozen, and has another value", spec.name);
      trains = trains || !same;
    });
    test::require(trains || setting.ranks > 1, "nothing has trained");
  });
  return seen;
}

std::vector<Setting> settings() {
  const Setting on_host{.ranks = 2, .stage = 3, .params = Tier::kHost, .state = Tier::kHost};
  Setting on_nvme = on_host;
  on_nvme.params = on_nvme.state = Tier::kNvme;
  on_nvme.host_numel = 700;
  Setting again{.ranks = 2, .stage = 2, .micro_steps = 3};
  again.recomputed.recompute.part = RecomputedPart::kBlock;
  return {{},
          {.ranks = 2, .stage = 0, .micro_steps = 2},
          {.ranks = 2, .stage = 1},
          {.ranks = 2, .stage = 2},
          {.ranks = 2, .stage = 3},
          {.ranks = 2, .stage = 3, .micro_steps = 2},
          again,
          {.ranks = 2, .stage = 1, .state = Tier::kHost},
          {.ranks = 2, .stage = 3, .params = Tier::kHost},
          on_host,
          on_nvme,
          {.ranks = 2, .tensor = 2},
          {.ranks = 4, .tensor = 2, .stage = 3, .shares_rows = true},
          {.ranks = 2, .pipe = 2, .micro_steps = 2},
          {.ranks = 4, .pipe = 2, .stage = 1, .micro_steps = 3},
          {.ranks = 2, .sequence = 2, .stage = 3}};
}

TEST_CASE("a model of which a part trains has the losses of PyTorch", "[train]") {
  for (const GoldenRun& golden : read_golden()) {
    const std::vector<ParamSpec> specs = specs_of_model(small_gpt2(0), DType::kF32);
    const std::set<std::string> frozen = frozen_names(golden.choice, specs);
    int64_t trained = 0;
    for (const ParamSpec& spec : specs) {
      trained += frozen.contains(spec.name) ? 0 : spec.shape.numel();
    }
    CHECK(trained == golden.trained);
    for (Setting setting : settings()) {
      setting.frozen = frozen;
      CAPTURE(golden.name, words_of(setting), setting.tensor, setting.pipe, setting.sequence);
      const Seen seen = run(setting);
      REQUIRE(seen.losses.size() == golden.losses.size());
      for (size_t step = 0; step < seen.losses.size(); ++step) {
        CAPTURE(step);
        CHECK(std::abs(seen.losses[step] - golden.losses[step]) < 1e-6);
        CHECK(seen.norms[step] == Approx(golden.norms[step]).epsilon(1e-5));
      }
    }
  }
}

}  // namespace
}  // namespace ds
