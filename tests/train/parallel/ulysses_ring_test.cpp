// Training with samples whose ranks do both (USP): neighbours exchange heads, and between their
// groups keys and values go round. The losses of one rank, the bits of every stage, what is moved,
// and checkpoints of any mesh.
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

Gpt2Config gpt2(double dropout = 0) {
  Gpt2Config model = gpt2_of_four_heads(true, dropout);
  model.attn_pdrop = 0;
  return model;
}

struct Meshed {
  int ranks;
  int sequence;
  int ring;
  int tensor = 1;
};

Setting setting_of(const Meshed& mesh, int stage, int micro_steps = 1) {
  return {.ranks = mesh.ranks,
          .sequence = mesh.sequence,
          .tensor = mesh.tensor,
          .stage = stage,
          .micro_steps = micro_steps,
          .ring = mesh.ring};
}

TEST_CASE("ranks that exchange heads inside of a ring have the losses of one", "[train]") {
  for (const ModelConfig& model :
       {ModelConfig(gpt2(0.2)), ModelConfig(llama_of_eight_heads(false))}) {
    const Outcome alone = run_model({}, model);
    CHECK(alone.losses.back() != alone.losses.front());
    for (const Meshed mesh : {Meshed{4, 4, 2}, Meshed{8, 4, 2, 2}, Meshed{8, 8, 4}}) {
      CAPTURE(model.index(), mesh.ranks, mesh.sequence, mesh.ring, mesh.tensor);
      require_losses_near(run_model(setting_of(mesh, 3), model), alone, 1e-5);
    }
  }
}

// If three ranks trade, the one in the middle has rows of both pieces.
TEST_CASE("an odd number of ranks can exchange heads inside of a ring", "[train]") {
  Gpt2Config model = gpt2(0.2);
  model.n_head = 3;
  model.n_embd = 24;
  const auto run = [&](const Setting& setting) {
    EngineOptions options = options_with(setting, model);
    options.length = 12;
    MemoryFileSystem disk;
    return train(setting, options, disk, 3);
  };
  require_losses_near(run(setting_of({6, 6, 2}, 2)), run({}), 1e-5);
}

TEST_CASE("stages agree to the bit over trades and rings, and so do blocks that are run again",
          "[train]") {
  Setting setting = setting_of({4, 4, 2}, 0, 3);
  const Outcome expected = require_stages_alike(setting, gpt2(0.1), 2);
  setting.stage = 3;
  setting.recomputed = {.recompute = {.part = RecomputedPart::kBlock}};
  CHECK(run_model(setting, gpt2(0.1), 2).state == expected.state);
}

TEST_CASE("a run goes on with trades, rings, both or neither", "[train]") {
  const Outcome whole = run_model({}, gpt2(0.1), 4);
  const std::vector<Meshed> meshes{{4, 4, 2}, {4, 4, 1}, {4, 4, 4}, {1, 1, 1}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Meshed& first = meshes[i];
    const Meshed& second = meshes[(i + 1) % meshes.size()];
    CAPTURE(first.ring, second.ring);
    require_goes_on(setting_of(first, 3), setting_of(second, 1), gpt2(0.1), whole);
  }
}

TEST_CASE("trades move what they do among so many ranks, rings a share of the keys, as planned",
          "[train]") {
  for (const Meshed mesh : {Meshed{4, 4, 2}, Meshed{8, 8, 4}, Meshed{8, 8, 2}}) {
    CAPTURE(mesh.sequence, mesh.ring);
    const Setting setting = setting_of(mesh, 2, 3);
    const EngineOptions options = options_with(setting, gpt2());
    if (dimensions(options.model).heads % (mesh.sequence / mesh.ring) != 0) continue;
    // A rank has N / P of N tokens of width h. A trade of U ranks moves 4 N h / P each pass, of
    // which a U-th stays where it is; keys and values of N / R tokens and h / U columns are as much
    // as those of a rank, and go round R - 1 times, three times with the backward's gradients.
    const int64_t ring = mesh.ring, trading = mesh.sequence / mesh.ring, layers = 2, passes = 2;
    const int64_t own = options.micro_batch * options.length / mesh.sequence * 32 * 4;
    for (const Moved& moved : moved_by(setting, options)) {
      CHECK(moved.traffic.at("ulysses").at("all_to_all").wire_bytes ==
            3 * layers * passes * 4 * own * (trading - 1) / trading);
      CHECK(moved.traffic.at("ring").at("send").wire_bytes ==
            3 * layers * 3 * (ring - 1) * 2 * own);
      CHECK_FALSE(moved.traffic.contains("sequence"));
      check_as_planned(moved);
    }
  }
}

}  // namespace
}  // namespace ds
