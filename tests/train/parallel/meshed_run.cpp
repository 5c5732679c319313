#include "tests/train/parallel/meshed_run.h"

namespace ds::testing {

EngineOptions options_with(const Setting& setting, const ModelConfig& model) {
  EngineOptions options = options_of(setting);
  options.model = model;
  return options;
}

Outcome run_model(const Setting& setting, const ModelConfig& model, FileSystem& files,
                  int64_t until) {
  return train(setting, options_with(setting, model), files, until);
}

Outcome run_model(const Setting& setting, const ModelConfig& model, int64_t until) {
  MemoryFileSystem disk;
  return run_model(setting, model, disk, until);
}

Gpt2Config gpt2_of_four_heads(bool tied, double dropout) {
  Gpt2Config model = small_gpt2(dropout);
  model.n_head = 4;
  model.tie_word_embeddings = tied;
  return model;
}

LlamaConfig llama_of_eight_heads(bool tied, double dropout) {
  return {.num_hidden_layers = 2,
          .num_attention_heads = 8,
          .num_key_value_heads = 4,
          .hidden_size = 32,
          .intermediate_size = 40,
          .max_position_embeddings = 16,
          .vocab_size = 29,
          .attention_dropout = dropout,
          .tie_word_embeddings = tied};
}

LlamaConfig llama_with_biases(bool tied, double dropout, int64_t key_heads) {
  LlamaConfig model = llama_of_eight_heads(tied, dropout);
  model.num_key_value_heads = key_heads;
  model.intermediate_size = 41;
  model.attention_bias = model.mlp_bias = true;
  return model;
}

void require_losses_near(const Outcome& got, const Outcome& expected, double within) {
  REQUIRE(got.losses.size() == expected.losses.size());
  for (size_t i = 0; i < got.losses.size(); ++i) {
    CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(within));
  }
  CHECK(got.validation_loss == Approx(expected.validation_loss).epsilon(within));
}

void require_near(const Outcome& got, const Outcome& expected, double within) {
  require_losses_near(got, expected, within);
  REQUIRE(got.state.size() == expected.state.size());
  for (const auto& [name, values] : expected.state) {
    const std::vector<float>& own = got.state.at(name);
    REQUIRE(own.size() == values.size());
    double apart = 0, length = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      apart += std::pow(own[i] - values[i], 2);
      length += std::pow(values[i], 2);
    }
    CAPTURE(name);
    CHECK(std::sqrt(apart) <= 1e-2 * std::sqrt(length) + 1e-7);
  }
}

void require_goes_on(const Setting& first, const Setting& second, const ModelConfig& model,
                     const Outcome& whole) {
  const int64_t until = std::ssize(whole.losses), saved_at = until - 2;
  MemoryFileSystem disk;
  const Outcome saved = run_model(first, model, disk, saved_at);
  CHECK(run_model(second, model, disk, saved_at).state == saved.state);
  const Outcome resumed = run_model(second, model, disk, until);
  REQUIRE(resumed.losses.size() == 2);
  CHECK(resumed.losses.back() == Approx(whole.losses.back()).epsilon(1e-5));
}

Outcome require_stages_alike(Setting setting, const ModelConfig& model, int64_t until) {
  setting.stage = 0;
  const Outcome expected = run_model(setting, model, until);
  for (int stage = 1; stage <= 3; ++stage) {
    CAPTURE(stage);
    setting.stage = stage;
    const Outcome got = run_model(setting, model, until);
    CHECK(got.state == expected.state);
    CHECK(got.losses == expected.losses);
  }
  return expected;
}

std::vector<Moved> moved_by(const Setting& setting, const EngineOptions& options) {
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  std::vector<Moved> moved(to_size(setting.ranks));
  test::run_ranks(setting.ranks, [&](Communicator& world) {
    CommVolume volume;
    Connections connections = Connections::over(world, plan.mesh, {.volume = &volume});
    Workspace workspace(Device::cpu(), 1, connections.peers());
    const RankPlan& own = plan.of_rank(world.rank());
    Engine engine(options, workspace.resources(), own.step);
    engine.initialize();
    volume.reset();
    const Mesh& mesh = engine.mesh();
    CountingSource source(options, mesh);
    train_step(engine, source);
    nth(moved, world.rank()) = {.traffic = volume.totals(), .planned = own.wire_bytes};
    engine.evaluate(source, 1);
    test::require(nth(workspace.usage(), Tier::kDevice).tag_bytes_at_peak ==
                      nth(own.memory, Tier::kDevice).tag_bytes_at_peak,
                  "rank {}: another peak than planned", world.rank());
    test::require(
        nth(workspace.usage(), Tier::kHost).bytes_peak == nth(own.memory, Tier::kHost).bytes_peak,
        "rank {}: another peak of the host than planned", world.rank());
  });
  return moved;
}

void check_as_planned(const Moved& moved) {
  for (const auto& [axis, ops] : moved.traffic) {
    for (const auto& [op, count] : ops) {
      CAPTURE(axis, op);
      CHECK(moved.planned.at(axis).at(op) == static_cast<double>(count.wire_bytes));
    }
  }
}

}  // namespace ds::testing
