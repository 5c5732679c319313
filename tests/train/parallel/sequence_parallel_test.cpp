// Training with samples that several ranks share (Ulysses), over whole steps of the engine: the
// losses of one rank, the bits of every stage, what is moved and kept, and checkpoints of any mesh.

#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

Gpt2Config gpt2(bool tied, double dropout = 0) {
  return {.n_layer = 2,
          .n_head = 4,
          .n_embd = 32,
          .n_positions = 16,
          .vocab_size = 29,
          .resid_pdrop = dropout,
          .embd_pdrop = dropout,
          .attn_pdrop = dropout,
          .tie_word_embeddings = tied};
}

LlamaConfig llama(bool tied, double dropout = 0) {
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

struct Meshed {
  int ranks;
  int sequence;
};

TEST_CASE("ranks that share samples have the losses of one that has them whole", "[train]") {
  for (const ModelConfig& model : {ModelConfig(gpt2(true)), ModelConfig(gpt2(false)),
                                   ModelConfig(llama(true)), ModelConfig(llama(false))}) {
    const Outcome alone = run_model({}, model);
    CHECK(alone.losses.back() != alone.losses.front());
    for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}}) {
      CAPTURE(model.index(), mesh.ranks, mesh.sequence);
      require_losses_near(
          run_model({.ranks = mesh.ranks, .sequence = mesh.sequence, .stage = 1}, model), alone,
          1e-5);
    }
  }
}

TEST_CASE("what is dropped does not follow from who has which part of a sample", "[train]") {
  for (const ModelConfig& model : {ModelConfig(gpt2(true, 0.2)), ModelConfig(llama(true, 0.2))}) {
    const Outcome alone = run_model({.micro_steps = 2}, model);
    const Outcome other =
        run_model({.micro_steps = 2},
                  model.index() == 0 ? ModelConfig(gpt2(true)) : ModelConfig(llama(true)));
    CHECK(alone.losses != other.losses);
    for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}}) {
      CAPTURE(model.index(), mesh.ranks, mesh.sequence);
      const Setting setting{
          .ranks = mesh.ranks, .sequence = mesh.sequence, .stage = 2, .micro_steps = 2};
      require_losses_near(run_model(setting, model), alone, 1e-5);
    }
  }
}

TEST_CASE("stages of ZeRO agree to the bit over data and sequence together", "[train]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 2}}) {
    for (const int micro_steps : {1, 3}) {
      Setting setting{.ranks = mesh.ranks,
                      .sequence = mesh.sequence,
                      .micro_steps = micro_steps,
                      .host_access = access,
                      .clipping = 0.5};
      const Outcome expected = run_model(setting, gpt2(true), 3);
      for (int stage = 1; stage <= 3; ++stage) {
        CAPTURE(mesh.ranks, mesh.sequence, micro_steps, stage);
        setting.stage = stage;
        const Outcome got = run_model(setting, gpt2(true), 3);
        CHECK(got.state == expected.state);
        CHECK(got.losses == expected.losses);
      }
    }
  }
}

TEST_CASE("shared samples train in narrow types, and come near whole ones", "[train]") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Setting alone{.dtype = dtype};
    if (dtype == DType::kF16) {
      alone.loss_scale = {.kind = LossScaling::kDynamic,
                          .options = {.init_scale = 0x1p10, .window = 100}};
    }
    Setting shared = alone;
    shared.ranks = 4;
    shared.sequence = 2;
    shared.stage = 3;
    shared.wire = DType::kF32;
    require_losses_near(run_model(shared, llama(true)), run_model(alone, llama(true)), 3e-2);
  }
}

TEST_CASE("blocks that are run again trade their heads again, with the same bits", "[train]") {
  Setting setting{.ranks = 4, .sequence = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 3};
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome kept = run_model(setting, model, 2);
  for (const RecomputedPart part : {RecomputedPart::kBlock, RecomputedPart::kAttention}) {
    setting.recomputed = {.recompute = {.part = part}};
    const Outcome again = run_model(setting, model, 2);
    CHECK(again.state == kept.state);
    CHECK(again.losses == kept.losses);
  }
  setting.recomputed = {};
  setting.offload_activations = true;
  const Outcome offloaded = run_model(setting, model, 2);
  CHECK(offloaded.state == kept.state);
}

TEST_CASE("a run goes on with other numbers of ranks for a sample", "[train]") {
  const ModelConfig model = gpt2(true, 0.1);
  const Outcome whole = run_model({}, model, 5);
  const std::vector<Meshed> meshes{{2, 2}, {4, 4}, {4, 2}, {2, 1}, {1, 1}};
  for (const Meshed first : meshes) {
    for (const Meshed second : meshes) {
      CAPTURE(first.ranks, first.sequence, second.ranks, second.sequence);
      MemoryFileSystem disk;
      const Outcome saved =
          run_model({.ranks = first.ranks, .sequence = first.sequence, .stage = 3}, model, disk, 3);
      const Setting other{.ranks = second.ranks, .sequence = second.sequence, .stage = 1};
      CHECK(run_model(other, model, disk, 3).state == saved.state);
      const Outcome resumed = run_model(other, model, disk, 5);
      REQUIRE(resumed.losses.size() == 2);
      CHECK(resumed.losses.back() == Approx(whole.losses.back()).epsilon(1e-5));
    }
  }
}

TEST_CASE("attention moves 4 N h / P, as planned, and gradients go over both axes", "[train]") {
  for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}}) {
    for (const auto part : {RecomputedPart::kNone, RecomputedPart::kBlock}) {
      CAPTURE(mesh.ranks, mesh.sequence, static_cast<int>(part));
      const Setting setting{.ranks = mesh.ranks,
                            .sequence = mesh.sequence,
                            .stage = 2,
                            .micro_steps = 3,
                            .recomputed = {.recompute = {.part = part}}};
      const EngineOptions options = options_with(setting, gpt2(true));
      const Moved moved = moved_by(setting, options).front();
      // N tokens of a micro-batch of width h are on P ranks; a share of 1/P stays where it is.
      const int64_t ranks = mesh.sequence;
      const int64_t tokens = options.micro_batch * options.length;
      const int64_t bytes = 4 * tokens * 32 / ranks * 4;
      const int64_t passes = part == RecomputedPart::kBlock ? 3 : 2;
      const int64_t expected = bytes * (ranks - 1) / ranks * passes * 2 * 3;
      CHECK(moved.traffic.at("sequence").at("all_to_all").wire_bytes == expected);
      CHECK(moved.traffic.at("sequence").size() == 1);
      CHECK_FALSE(moved.traffic.contains("data"));
      CHECK(moved.traffic.contains("data_sequence"));
      check_as_planned(moved);
    }
  }
}

TEST_CASE("shared samples leave a rank its part of the activations", "[train]") {
  EngineOptions options = options_of({.global_batch = 1});
  options.model = Gpt2Config{.n_layer = 4,
                             .n_head = 8,
                             .n_embd = 256,
                             .n_positions = 4096,
                             .vocab_size = 256,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0};
  options.length = 4096;
  const auto activations = [&](int sequence) {
    const RunPlan plan = dry_run(options, {.sequence = sequence}, {});
    const MemoryUsage memory = nth(plan.of_rank(0).memory, Tier::kDevice);
    return static_cast<double>(nth(memory.tag_bytes_at_peak, MemoryTag::kActivations));
  };
  const double alone = activations(1);
  CHECK(activations(2) < 0.55 * alone);
  CHECK(activations(4) < 0.3 * alone);
}

TEST_CASE("meshes that the engine cannot train over are refused by name", "[train]") {
  const auto refused = [](const MeshSizes& sizes, int64_t length) {
    EngineOptions options = options_of({});
    options.length = length;
    std::string text;
    try {
      dry_run(options, sizes, {});
    } catch (const Error& error) {
      text = error.what();
    }
    return text;
  };
  CHECK_THAT(refused({.data = 2, .sequence = 2, .shard = 2}, 16), Catch::Contains("neighbours"));
  CHECK_THAT(refused({.sequence = 3}, 16),
             Catch::Contains("samples of 16 tokens, which 3 ranks cannot share"));
  CHECK_THAT(refused({.sequence = 4}, 16), Catch::Contains("2 heads and 2 of keys"));
}

}  // namespace
}  // namespace ds
