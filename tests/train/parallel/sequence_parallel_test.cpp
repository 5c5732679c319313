// Training with samples that several ranks share (Ulysses), over whole steps of the engine: the
// losses of one rank, the bits of every stage, what is moved and kept, and checkpoints of any mesh.

#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

struct Meshed {
  int ranks;
  int sequence;
};

TEST_CASE("ranks that share samples have the losses of one that has them whole", "[train]") {
  for (const ModelConfig& model :
       {ModelConfig(gpt2_of_four_heads(true)), ModelConfig(gpt2_of_four_heads(false)),
        ModelConfig(llama_of_eight_heads(true)), ModelConfig(llama_of_eight_heads(false))}) {
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
  for (const ModelConfig& model :
       {ModelConfig(gpt2_of_four_heads(true, 0.2)), ModelConfig(llama_of_eight_heads(true, 0.2))}) {
    const Outcome alone = run_model({.micro_steps = 2}, model);
    const Outcome other =
        run_model({.micro_steps = 2}, model.index() == 0 ? ModelConfig(gpt2_of_four_heads(true))
                                                         : ModelConfig(llama_of_eight_heads(true)));
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
      const Setting setting{.ranks = mesh.ranks,
                            .sequence = mesh.sequence,
                            .micro_steps = micro_steps,
                            .host_access = access,
                            .clipping = 0.5};
      CAPTURE(mesh.ranks, mesh.sequence, micro_steps);
      require_stages_alike(setting, gpt2_of_four_heads(true), 3);
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
    require_losses_near(run_model(shared, llama_of_eight_heads(true)),
                        run_model(alone, llama_of_eight_heads(true)), 3e-2);
  }
}

TEST_CASE("blocks that are run again exchange their heads again, with the same bits", "[train]") {
  Setting setting{.ranks = 4, .sequence = 2, .stage = 3, .dtype = DType::kBF16, .micro_steps = 3};
  const ModelConfig model = gpt2_of_four_heads(true, 0.1);
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
  const ModelConfig model = gpt2_of_four_heads(true, 0.1);
  const Outcome whole = run_model({}, model, 5);
  const std::vector<Meshed> meshes{{2, 2}, {4, 4}, {4, 2}, {2, 1}, {1, 1}};
  for (const Meshed first : meshes) {
    for (const Meshed second : meshes) {
      CAPTURE(first.ranks, first.sequence, second.ranks, second.sequence);
      require_goes_on({.ranks = first.ranks, .sequence = first.sequence, .stage = 3},
                      {.ranks = second.ranks, .sequence = second.sequence, .stage = 1}, model,
                      whole);
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
      const EngineOptions options = options_with(setting, gpt2_of_four_heads(true));
      const Moved moved = moved_by(setting, options).front();
      // N tokens of a micro-batch of width h are on P ranks; a share of 1/P stays where it is.
      const int64_t ranks = mesh.sequence;
      const int64_t tokens = options.micro_batch * options.length;
      const int64_t bytes = 4 * tokens * 32 / ranks * 4;
      // There are two layers, the first of which is run again.
      const int64_t passes = 2 * 2 + (part == RecomputedPart::kBlock ? 1 : 0);
      const int64_t expected = bytes * (ranks - 1) / ranks * passes * 3;
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
