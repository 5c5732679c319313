// The largest model that a machine has room for: one in the proportions of the one that is asked
// with, whose own dry run fits and whose next larger one's does not.
#include "train/plan/fit.h"

#include "config/reader/json_reader.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"

namespace ds {
namespace {

using testing::options_of;
using testing::Setting;

RunPlan plan_of(const EngineOptions& like, const ModelConfig& model, int ranks) {
  EngineOptions options = like;
  options.model = model;
  return dry_run(options, {.data = ranks}, {});
}

TEST_CASE("a model keeps its proportions and the size of its heads", "[train]") {
  const ModelConfig gpt2 = Gpt2Config{};  // 12 x 768, 12 heads
  const ModelDimensions twice = dimensions(with_heads(gpt2, 24));
  CHECK(twice.layers == 24);
  CHECK(twice.width == 1536);
  CHECK(twice.inner == 4 * 1536);
  CHECK(twice.vocabulary == 50257);
  CHECK(dimensions(with_heads(gpt2, 1)).layers == 1);
  const ModelConfig llama = LlamaConfig{.num_hidden_layers = 32,
                                        .num_attention_heads = 32,
                                        .num_key_value_heads = 8,
                                        .hidden_size = 4096,
                                        .intermediate_size = 14336};
  CHECK(heads_of(llama) == 8);
  const ModelDimensions half = dimensions(with_heads(llama, 4));
  CHECK(half.layers == 16);
  CHECK(half.width == 2048);
  CHECK(half.heads == 16);
  CHECK(half.kv_heads == 4);
  CHECK(half.head_dim == 128);
  CHECK(half.inner == 7168);
}

TEST_CASE("the largest model fits by its own plan, and the next one does not", "[train]") {
  for (const bool offloads : {false, true}) {
    EngineOptions like = options_of({.ranks = 2,
                                     .stage = 3,
                                     .dtype = DType::kBF16,
                                     .offload_activations = offloads,
                                     .params = offloads ? Tier::kHost : Tier::kDevice});
    const MachineRoom room{.device = size_t{6} << 20, .host = size_t{8} << 20};
    for (const int64_t guess : {1, 3, 40}) {
      CAPTURE(offloads, guess);
      const std::optional<Fit> fit = largest_fit(like, {.data = 2}, room, {}, guess);
      REQUIRE(fit);
      const int64_t heads = heads_of(fit->model);
      CHECK(has_room_for(room, plan_of(like, with_heads(like.model, heads), 2)));
      CHECK_FALSE(has_room_for(room, plan_of(like, with_heads(like.model, heads + 1), 2)));
    }
  }
  CHECK_FALSE(largest_fit(options_of({}), {}, {.device = 1000}, {}, 2));
}

TEST_CASE("more room reaches more with what is offloaded", "[train]") {
  const auto parameters = [](const Setting& setting, std::optional<size_t> host) {
    const EngineOptions like = options_of(setting);
    return largest_fit(like, {.data = 2}, {.device = size_t{6} << 20, .host = host}, {}, 2)
        ->plan.parameters();
  };
  const Setting plain{.ranks = 2, .stage = 3, .dtype = DType::kBF16};
  Setting offloaded = plain;
  offloaded.offload_activations = true;
  offloaded.params = Tier::kHost;
  CHECK(parameters(offloaded, size_t{64} << 20) > parameters(plain, std::nullopt));
  CHECK(parameters(offloaded, size_t{1} << 20) < parameters(offloaded, size_t{64} << 20));
  Setting both = offloaded;
  both.state = Tier::kHost;
  CHECK(parameters(both, size_t{64} << 20) > parameters(offloaded, size_t{64} << 20));
}

TEST_CASE("the answer names the settings that reach the largest", "[train]") {
  const EngineOptions like = options_of({.ranks = 2, .stage = 3});
  const MachineRoom room{.device = size_t{6} << 20, .host = size_t{1} << 30};
  FitTable table{.room = room, .ranks = 2, .rows = {}};
  table.rows.push_back({.settings = {"a=1"}, .micro_batch = 6, .fit = {}, .refused = "not here"});
  table.rows.push_back({.settings = {"b=2"},
                        .micro_batch = 6,
                        .fit = largest_fit(like, {.data = 2}, room, {}, 2),
                        .refused = {}});
  CHECK(table.largest() == &table.rows.back());
  const std::string text = fit_text(table);
  CHECK_THAT(text, Catch::Contains("none  a=1: not here\n"));
  CHECK_THAT(text, Catch::Contains("M parameters: b=2\n"));
  const Value json = read_config_document(fit_json(table), "fit");
  CHECK(json.find("largest")->find("settings")->items().front().as_string() == "b=2");
  CHECK(json.find("largest")->find("parameters")->as_integer() ==
        table.rows.back().fit->plan.parameters());
  CHECK(json.find("ways")->items().size() == 2);
  CHECK(json.find("ways")->items().front().find("refused")->as_string() == "not here");
  table.rows.pop_back();
  CHECK_THAT(fit_text(table),
             Catch::EndsWith("largest       none: not even the smallest model fits\n"));
}

}  // namespace
}  // namespace ds
