// Models with experts: the same bits wherever ZeRO keeps weights and state, whatever is computed
// again; adapters and codes beside experts; routers that send every token to the same experts.
#include "tests/support/tiny_models.h"
#include "tests/train/offload/offload_settings.h"
#include "tests/train/parallel/meshed_run.h"
#include "train/settings/adapter_fit.h"

namespace ds {
namespace {

using namespace testing;

// As small_gpt2() in what runs need to know of it.
template <class Config>
Config of_small_runs(Config c) {
  c.vocab_size = 29;
  c.max_position_embeddings = 16;
  return c;
}

std::vector<ModelConfig> models() {
  Qwen2MoeConfig shared = of_small_runs(tiny_qwen2_moe(2));
  shared.mlp_only_layers = {};  // experts are in a layer that is not the last, too
  return {of_small_runs(tiny_mixtral(2)), shared, of_small_runs(tiny_qwen3_moe(2))};
}

Outcome run(const Setting& setting, const EngineOptions& options) {
  MemoryFileSystem disk;
  Outcome got = train(setting, options, disk, 3);
  check_plan(setting, options, got);
  return got;
}

TEST_CASE("experts have the same bits at every stage, on every tier, and computed again",
          "[train]") {
  for (const ModelConfig& model : models()) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Setting plain{.ranks = 2, .dtype = dtype, .micro_steps = 2};
      const Outcome expected = run(plain, options_with(plain, model));
      CHECK(expected.losses.front() != expected.losses.back());
      std::vector<Setting> settings;
      for (int stage = 1; stage <= 3; ++stage) {
        settings.push_back(plain);
        settings.back().stage = stage;
      }
      const Setting sharded = settings.back();
      for (const Setting& offloaded : offloads_of_both(sharded)) settings.push_back(offloaded);
      for (const RecomputedPart part :
           {RecomputedPart::kBlock, RecomputedPart::kAttention, RecomputedPart::kMlp}) {
        settings.push_back(sharded);
        settings.back().recomputed.recompute.part = part;
      }
      settings.push_back(plain);
      settings.back().offload_activations = true;
      for (const Setting& setting : settings) {
        CAPTURE(family_name(model), words_of(setting));
        const Outcome got = run(setting, options_with(setting, model));
        CHECK(got.state == expected.state);
        CHECK(got.losses == expected.losses);
      }
    }
  }
}

TEST_CASE("experts in tiles have the losses of those at once", "[train]") {
  for (const ModelConfig& model : models()) {
    const Outcome whole = run_model({.micro_steps = 2}, model, 3);
    Setting tiled{.micro_steps = 2};
    tiled.recomputed.mlp_tiles = 3;
    require_losses_near(run(tiled, options_with(tiled, model)), whole, 1e-5);
  }
}

// Weights near 0 give all tokens the same logits, and of equal ones the lower experts are chosen.
TEST_CASE("experts that no token chooses stop nobody, at any stage and on any mesh", "[train]") {
  for (ModelConfig model : models()) {
    std::visit(
        [](auto& c) {
          if constexpr (requires { c.num_experts_per_tok; }) {
            c.num_experts_per_tok = 1;
            c.initializer_range = 1e-30;
          }
        },
        static_cast<FamilyConfig&>(model));
    for (const Setting& setting :
         {Setting{}, Setting{.ranks = 2, .stage = 1}, Setting{.ranks = 3, .stage = 2},
          Setting{.ranks = 2, .stage = 3}, Setting{.ranks = 2, .tensor = 2},
          Setting{.ranks = 2, .pipe = 2}, Setting{.ranks = 2, .sequence = 2}}) {
      CAPTURE(family_name(model), setting.ranks, setting.stage);
      const Outcome got = run(setting, options_with(setting, model));
      CHECK(got.losses.front() == Approx(std::log(29.0)).epsilon(1e-5));
    }
  }
}

TEST_CASE("adapters train beside experts that are frozen, also as codes", "[train]") {
  const Setting plain{.ranks = 2};
  Setting sharded = plain;
  sharded.stage = 3;
  for (ModelConfig model : models()) {
    model.adapters = AdapterSpec{.rank = 2, .alpha = 4, .start = AdapterStart::kRandom};
    const std::vector<std::string> notes = require_adapters(model);
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes.front(), Catch::StartsWith("lora: experts have no adapters"));
    for (const bool as_codes : {false, true}) {
      CAPTURE(family_name(model), as_codes);
      const auto options = [&](const Setting& setting) {
        EngineOptions of = options_with(setting, model);
        if (as_codes) of.zero.layout.base_code = kernels::BlockCode{};
        return of;
      };
      const Outcome expected = run(plain, options(plain));
      const Outcome got = run(sharded, options(sharded));
      CHECK(got.state == expected.state);
      CHECK(got.losses == expected.losses);
      for (const auto& [name, values] : expected.state) {
        CHECK((name.find("experts") == std::string::npos || name.ends_with("/weight")));
      }
      const RunPlan plan = dry_run(options(plain), {}, {});
      int64_t experts = 0;
      for (const ParamSpec& spec : specs_of_model(model, DType::kF32)) {
        if (!spec.pieces.empty()) experts += spec.shape.numel();
      }
      CHECK(experts > 0);
      CHECK((as_codes ? plan.packed() > experts : plan.packed() == 0));
    }
  }
}

}  // namespace
}  // namespace ds
