// Training of adapters: the same bits wherever ZeRO keeps weights and state, whatever is computed
// again, the losses of one rank on every mesh, memory and traffic as planned, and resumes.
#include "tests/train/offload/offload_settings.h"
#include "tests/train/parallel/meshed_run.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

using namespace testing;

// Each with something that the others do not have.
std::vector<AdapterSpec> kinds() {
  return {{.rank = 3, .alpha = 6, .dropout = 0.25, .start = AdapterStart::kRandom},
          {.rank = 2,
           .alpha = 4,
           .targets = {"c_attn", "mlp.c_proj"},
           .scales_by_root = true,
           .has_magnitudes = true,
           .saved_modules = {"ln_f"},
           .bias = AdapterBias::kAll,
           .start = AdapterStart::kRandom}};
}

// Returns the outcome, once what is frozen of its state has been compared with the beginning.
Outcome run(const Setting& setting, int64_t until = 3) {
  MemoryFileSystem first_disk, disk;
  const Outcome first = train(setting, first_disk, 0);
  Outcome got = train(setting, disk, until);
  int changed = 0;
  for (const auto& [name, values] : got.state) {
    const std::string of = name.substr(0, name.rfind('/'));
    if (is_adapter_parameter(of) && values != first.state.at(name)) ++changed;
    if (!name.ends_with("attn.c_attn.weight/weight")) continue;
    CHECK(values == first.state.at(name));
    CHECK_FALSE(got.state.contains(of + "/exp_avg"));
  }
  CHECK(changed > 0);
  return got;
}

TEST_CASE("adapters have the same bits at every stage, on every tier, and computed again",
          "[train]") {
  for (const AdapterSpec& spec : kinds()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Setting plain{.ranks = 2, .dtype = dtype, .micro_steps = 2, .adapters = spec};
      const Outcome expected = run(plain);
      std::vector<Setting> settings;
      for (int stage = 1; stage <= 3; ++stage) {
        settings.push_back(plain);
        settings.back().stage = stage;
      }
      for (const Setting& offloaded : offloads_of(settings.back())) settings.push_back(offloaded);
      settings.push_back(settings.at(2));
      settings.back().params = Tier::kHost;
      for (const RecomputedPart part :
           {RecomputedPart::kBlock, RecomputedPart::kAttention, RecomputedPart::kMlp}) {
        settings.push_back(settings.at(1));
        settings.back().recomputed.recompute.part = part;
      }
      settings.push_back(settings.at(1));
      settings.back().offload_activations = true;
      for (const Setting& setting : settings) {
        CAPTURE(words_of(setting), spec.has_magnitudes, name_of(dtype));
        const Outcome got = run(setting);
        CHECK(got.state == expected.state);
        CHECK(got.losses == expected.losses);
        check_plan(setting, got);
      }
    }
  }
}

TEST_CASE("adapters have the losses of one rank however ranks share layers, stages and samples",
          "[train]") {
  for (AdapterSpec spec : kinds()) {
    const bool drops = spec.dropout > 0;
    const Outcome alone = run({.micro_steps = 2, .adapters = spec});
    std::vector<Setting> settings{Setting{.ranks = 2, .pipe = 2, .micro_steps = 2},
                                  Setting{.ranks = 4, .pipe = 2, .stage = 1, .micro_steps = 2},
                                  Setting{.ranks = 2, .sequence = 2, .stage = 3, .micro_steps = 2},
                                  Setting{.ranks = 2, .sequence = 2, .micro_steps = 2, .ring = 2}};
    if (!drops) {
      settings.push_back({.ranks = 2, .tensor = 2, .micro_steps = 2});
      settings.push_back({.ranks = 4, .tensor = 2, .stage = 3, .micro_steps = 2});
      settings.push_back({.ranks = 2, .tensor = 2, .micro_steps = 2, .shares_rows = true});
      settings.push_back({.ranks = 4, .tensor = 2, .pipe = 2, .micro_steps = 2});
    }
    for (Setting& setting : settings) {
      setting.adapters = spec;
      CAPTURE(words_of(setting), setting.tensor, setting.pipe, setting.sequence, drops);
      require_losses_near(run(setting), alone, 1e-5);
      for (const Moved& moved : moved_by(setting, options_of(setting))) check_as_planned(moved);
    }
  }
}

TEST_CASE("what a folder of adapters drops is refused where it is not built", "[train]") {
  ModelConfig model = small_gpt2(0);
  CHECK_NOTHROW(require_droppable(model, 2));
  model.adapters = kinds().front();
  CHECK_NOTHROW(require_droppable(model, 1));
  CHECK_THROWS_WITH(require_droppable(model, 2), Catch::Contains("beside tensor parallelism"));
  model.adapters->has_magnitudes = true;
  CHECK_THROWS_WITH(require_droppable(model, 1), Catch::Contains("beside use_dora; write 0"));
  model.adapters->dropout = 0;
  CHECK_NOTHROW(require_droppable(model, 2));
}

TEST_CASE("an MLP in tiles drops what it drops at once", "[train]") {
  Setting setting{.adapters = kinds().front()};
  const Outcome expected = run(setting);
  setting.recomputed.mlp_tiles = 3;
  require_losses_near(run(setting), expected, 1e-5);
}

TEST_CASE("a run of adapters goes on anywhere", "[train]") {
  for (const AdapterSpec& spec : kinds()) {
    const Setting first{.ranks = 2, .stage = 3, .params = Tier::kHost, .adapters = spec};
    MemoryFileSystem whole_disk, disk;
    const Outcome whole = train(first, whole_disk, 4);
    train(first, disk, 2);
    CHECK(train(first, disk, 4).state == whole.state);
    for (const Setting& other :
         {Setting{.ranks = 1, .adapters = spec}, Setting{.ranks = 3, .stage = 2, .adapters = spec},
          Setting{.ranks = 2, .pipe = 2, .adapters = spec}}) {
      CAPTURE(other.ranks, other.pipe, spec.has_magnitudes);
      CHECK(train(other, disk, 4).state == whole.state);
    }
  }
}

// The last parameters with gradients and state are those of what trains.
TEST_CASE("a plan of adapters counts state of what trains alone", "[train]") {
  const AdapterSpec spec{.rank = 3, .alpha = 6};
  const EngineOptions options = options_of({.adapters = spec});
  int64_t trained = 0, all = 0;
  for (const ParamSpec& param : specs_of_model(options.model, DType::kF32)) {
    all += param.shape.numel();
    if (param.trains) trained += param.shape.numel();
  }
  const RunPlan plan = dry_run(options, {}, {});
  CHECK(plan.parameters() == all);
  CHECK(plan.frozen() == all - trained);
  const MemoryUsage& device = nth(plan.of_rank(0).memory, Tier::kDevice);
  const auto bytes_of = [&](MemoryTag tag) {
    return static_cast<int64_t>(device.tag_bytes_at_peak.at(static_cast<size_t>(tag)));
  };
  // Two moments of fp32, buckets being padded, and the scalars of the step.
  CHECK(bytes_of(MemoryTag::kOptimizer) >= 8 * trained);
  CHECK(bytes_of(MemoryTag::kOptimizer) < 8 * trained + 8192);
  CHECK(bytes_of(MemoryTag::kGradients) < 4 * trained + 8192);
}

}  // namespace
}  // namespace ds
