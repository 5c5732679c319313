// Training with layers that several ranks share (Megatron-LM), over whole steps of the engine: the
// losses and weights of one rank, on every stage and beside shared samples, what is moved and kept,
// and checkpoints of any mesh.
#include "tests/support/tiny_models.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

struct Meshed {
  int ranks;
  int tensor;
  int sequence = 1;
};

Setting setting_of(const Meshed& mesh, int stage, int micro_steps = 1) {
  return {.ranks = mesh.ranks,
          .sequence = mesh.sequence,
          .tensor = mesh.tensor,
          .stage = stage,
          .micro_steps = micro_steps};
}

TEST_CASE("ranks that share layers have the losses of one that has them whole", "[train]") {
  for (const ModelConfig& model :
       {ModelConfig(gpt2_of_four_heads(true)), ModelConfig(gpt2_of_four_heads(false)),
        ModelConfig(llama_with_biases(true)), ModelConfig(llama_with_biases(false))}) {
    const Outcome alone = run_model({}, model);
    CHECK(alone.losses.back() != alone.losses.front());
    for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}}) {
      CAPTURE(model.index(), mesh.ranks, mesh.tensor);
      require_near(run_model(setting_of(mesh, 0), model), alone, 1e-5);
    }
  }
}

TEST_CASE("ranks that have the same keys and values sum what each makes of their gradients",
          "[train]") {
  for (const int64_t key_heads : {1, 2}) {
    const ModelConfig model = llama_with_biases(key_heads == 1, 0.1, key_heads);
    for (const int micro_steps : {1, 2}) {
      Setting alone{.micro_steps = micro_steps, .clipping = 0.05};  // the norm counts
      const Outcome expected = run_model(alone, model);
      for (const auto& [mesh, stage] : {std::pair{Meshed{4, 4}, 0}, std::pair{Meshed{8, 4}, 3}}) {
        CAPTURE(key_heads, micro_steps, mesh.ranks, stage);
        Setting shared = setting_of(mesh, stage, micro_steps);
        shared.clipping = 0.05;
        require_near(run_model(shared, model), expected, 1e-5);
      }
    }
  }
}

TEST_CASE("heads that ranks share are normed as they are where all are together", "[train]") {
  auto over_all = tiny_like_llama<Olmo2Config>(2);  // of two heads of keys
  auto head_by_head = tiny_like_llama<Qwen3Config>(2);
  over_all.vocab_size = head_by_head.vocab_size = 29;
  over_all.max_position_embeddings = head_by_head.max_position_embeddings = 16;
  for (const ModelConfig& model : {ModelConfig(over_all), ModelConfig(head_by_head)}) {
    const Outcome alone = run_model({.micro_steps = 2, .clipping = 0.05}, model);
    for (Setting shared :
         {setting_of({2, 2}, 0, 2), setting_of({4, 4}, 0, 2), setting_of({8, 4}, 3, 2)}) {
      shared.clipping = 0.05;
      for (const bool shares_rows : {false, true}) {
        CAPTURE(family_name(model), shared.ranks, shared.tensor, shares_rows);
        shared.shares_rows = shares_rows;
        require_near(run_model(shared, model), alone, 1e-5);
      }
    }
  }
}

TEST_CASE("heads of keys that ranks have several times are saved once, for any mesh", "[train]") {
  const ModelConfig model = llama_with_biases(true, 0.1, 2);
  const Outcome whole = run_model({}, model, 5);
  const std::vector<Meshed> meshes{{1, 1}, {4, 4}, {4, 2}, {8, 4}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Meshed& first = meshes[i];
    const Meshed& second = meshes[(i + 1) % meshes.size()];
    CAPTURE(first.ranks, first.tensor, second.ranks, second.tensor);
    require_goes_on(setting_of(first, 3), setting_of(second, 1), model, whole);
  }
}

TEST_CASE("layers are shared on every stage, beside other samples and other parts of them",
          "[train]") {
  const ModelConfig model = GENERATE(ModelConfig(gpt2_of_four_heads(true, 0.2)),
                                     ModelConfig(llama_with_biases(false, 0.2)));
  for (const int micro_steps : {1, 3}) {
    const Outcome alone = run_model({.micro_steps = micro_steps}, model);
    for (const int stage : {0, 1, 3}) {
      CAPTURE(model.index(), micro_steps, stage);
      require_near(run_model(setting_of({4, 2}, stage, micro_steps), model), alone, 1e-5);
    }
    require_near(run_model(setting_of({4, 2, 2}, 3, micro_steps), model), alone, 1e-5);
  }
}

TEST_CASE("all three axes go together at stage 3", "[train]") {
  const ModelConfig model = gpt2_of_four_heads(true, 0.2);
  require_near(run_model(setting_of({8, 2, 2}, 3, 2), model, 3),
               run_model({.micro_steps = 2}, model, 3), 1e-5);
}

TEST_CASE("stages of ZeRO agree to the bit over ranks that share layers", "[train]") {
  const auto access = GENERATE(HostAccess::kAlways, HostAccess::kBetweenSteps);
  Setting setting = setting_of({4, 2}, 0, 3);
  setting.host_access = access;
  setting.clipping = 0.5;
  require_stages_alike(setting, gpt2_of_four_heads(true), 3);
}

TEST_CASE("shared layers train in narrow types, and come near whole ones", "[train]") {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Setting alone{.dtype = dtype};
    if (dtype == DType::kF16) {
      alone.loss_scale = {.kind = LossScaling::kDynamic,
                          .options = {.init_scale = 0x1p10, .window = 100}};
    }
    Setting shared = alone;
    shared.ranks = 4;
    shared.tensor = 2;
    shared.stage = 3;
    const Outcome got = run_model(shared, llama_with_biases(true)),
                  expected = run_model(alone, llama_with_biases(true));
    for (size_t i = 0; i < got.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(expected.losses[i]).epsilon(3e-2));
    }
  }
}

TEST_CASE("blocks that are run again meet the others again, with the same bits", "[train]") {
  Setting setting = setting_of({4, 2}, 3, 3);
  setting.dtype = DType::kBF16;
  const ModelConfig model = gpt2_of_four_heads(true, 0.1);
  const Outcome kept = run_model(setting, model, 2);
  for (const RecomputedPart part :
       {RecomputedPart::kBlock, RecomputedPart::kAttention, RecomputedPart::kMlp}) {
    for (const bool partitions : {false, true}) {
      CAPTURE(static_cast<int>(part), partitions);
      setting.recomputed = {.recompute = {.part = part, .partitions = partitions}};
      const Outcome again = run_model(setting, model, 2);
      CHECK(again.state == kept.state);
      CHECK(again.losses == kept.losses);
    }
  }
  setting.recomputed.recompute.part = RecomputedPart::kBlock;
  setting.offload_activations = true;
  CHECK(run_model(setting, model, 2).state == kept.state);
  setting.recomputed = {};
  setting.offload_activations = true;
  CHECK(run_model(setting, model, 2).state == kept.state);
}

TEST_CASE("a run goes on with other numbers of ranks for a layer", "[train]") {
  const ModelConfig model = gpt2_of_four_heads(true, 0.1);
  const Outcome whole = run_model({}, model, 5);
  const std::vector<Meshed> meshes{{1, 1}, {4, 4}, {4, 2}, {2, 1}, {2, 2}, {4, 2, 2}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    for (const size_t apart : {1, 4}) {  // every mesh is gone on from twice
      const Meshed& first = meshes[i];
      const Meshed& second = meshes[(i + apart) % meshes.size()];
      CAPTURE(first.ranks, first.tensor, second.ranks, second.tensor);
      require_goes_on(setting_of(first, 3), setting_of(second, 1), model, whole);
    }
  }
}

TEST_CASE("layers, embedding and head move what Megatron-LM says, as planned", "[train]") {
  for (const Meshed& mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}, Meshed{4, 2, 2}}) {
    for (const auto part : {RecomputedPart::kNone, RecomputedPart::kBlock}) {
      CAPTURE(mesh.ranks, mesh.tensor, mesh.sequence, static_cast<int>(part));
      Setting setting = setting_of(mesh, 2, 3);
      setting.recomputed = {.recompute = {.part = part}};
      const EngineOptions options = options_with(setting, gpt2_of_four_heads(true));
      const Moved moved = moved_by(setting, options).front();
      // Per layer two sums of activations each pass (arXiv 1909.08053, section 3), but one of what
      // is run again, whose MLP nobody reads, and none of the last, which is not; one for the
      // embedding, one for the head's gradient.
      const int64_t ranks = mesh.tensor, layers = 2, width = 32, item = 4;
      const int64_t tokens = options.micro_batch * options.length / mesh.sequence;
      const int64_t sums = layers * (2 + 2) + (part == RecomputedPart::kBlock ? layers - 1 : 0);
      const int64_t sum = 2 * tokens * width * item * (ranks - 1) / ranks;
      const int64_t numbers = 3 * tokens * item * (ranks - 1);
      const auto& tensor = moved.traffic.at("tensor");
      CHECK(tensor.at("all_reduce").wire_bytes == 3 * (sums + 2) * sum);
      CHECK(tensor.at("all_gather").wire_bytes == 3 * numbers);
      CHECK(tensor.size() == 2);
      CHECK(moved.traffic.at("world").size() == 1);
      check_as_planned(moved);
    }
  }
}

TEST_CASE("what checkpoints keep is shared out where that is asked for, as planned", "[train]") {
  const Meshed mesh{4, 4};
  const auto options_that = [&](bool partitions, bool shares_rows) {
    Setting setting = setting_of(mesh, 1, 3);
    setting.recomputed = {.recompute = {.part = RecomputedPart::kBlock, .partitions = partitions}};
    EngineOptions options = options_with(setting, gpt2_of_four_heads(true));
    options.shared_layers.rows = shares_rows;
    return std::pair(setting, options);
  };
  const auto [setting, options] = options_that(true, false);
  const Moved moved = moved_by(setting, options).front();
  // One block of two is run again, in each of three micro-steps: what it starts from is gathered.
  const int64_t bytes = options.micro_batch * options.length * 32 * 4;
  const int64_t losses = 3 * options.micro_batch * options.length * 4;
  const int64_t gathered = moved.traffic.at("tensor").at("all_gather").wire_bytes;
  CHECK(gathered == 3 * (bytes / mesh.tensor + losses) * (mesh.tensor - 1));
  check_as_planned(moved);
  // If ranks have rows, there is nothing left to share out.
  const auto traffic = [&](bool partitions) {
    return dry_run(options_that(partitions, true).second, mesh_of(setting), {})
        .of_rank(0)
        .wire_bytes;
  };
  CHECK(traffic(true) == traffic(false));
}

TEST_CASE("of twelve checkpoints each of four ranks keeps a quarter", "[train]") {
  EngineOptions options = options_with(setting_of({4, 4}, 0), Gpt2Config{.n_layer = 12,
                                                                         .n_head = 8,
                                                                         .n_embd = 256,
                                                                         .n_positions = 1024,
                                                                         .vocab_size = 256,
                                                                         .resid_pdrop = 0,
                                                                         .embd_pdrop = 0,
                                                                         .attn_pdrop = 0});
  options.length = 1024;
  const auto activations = [&](bool partitions) {
    options.recomputed = {.recompute = {.part = RecomputedPart::kBlock, .partitions = partitions}};
    const RunPlan plan = dry_run(options, {.tensor = 4}, {});
    const MemoryUsage memory = nth(plan.of_rank(0).memory, Tier::kDevice);
    return static_cast<double>(nth(memory.tag_bytes_at_peak, MemoryTag::kActivations));
  };
  // Eleven of the twelve blocks keep an input, the last one all that it has.
  const double inputs = 11.0 * static_cast<double>(options.micro_batch) * 1024 * 256 * 4;
  const double saved = activations(false) - activations(true);
  CHECK(saved > 0.6 * inputs);
  CHECK(saved <= 0.75 * inputs);
}

TEST_CASE("gradients of keys that ranks have several times go over these once a step, as planned",
          "[train]") {
  for (const Meshed& mesh : {Meshed{4, 4}, Meshed{8, 4}}) {
    for (const int64_t key_heads : {1, 2}) {
      CAPTURE(mesh.ranks, key_heads);
      const Setting setting = setting_of(mesh, 2, 3);
      const EngineOptions options = options_with(setting, llama_with_biases(true, 0, key_heads));
      const Moved moved = moved_by(setting, options).front();
      // Each of two layers sums keys and values of one head of 4 elements: weights of 32 inputs,
      // and biases, each of which begins at a multiple of 32 elements. Ranks that see other samples
      // have a slice of them.
      const int64_t replicas = 4 / key_heads, slices = mesh.ranks / mesh.tensor;
      const int64_t elements = 32 * 4 + 32;
      const int64_t bytes = 4 * elements / slices * 4;
      const auto& sums = moved.traffic.at("key_replica");
      CHECK(sums.size() == 1);
      CHECK(sums.at("all_reduce").wire_bytes == 2 * bytes * (replicas - 1) / replicas);
      check_as_planned(moved);
    }
  }
}

MemoryUsage planned_memory(const EngineOptions& options, int tensor) {
  const RunPlan plan = dry_run(options, {.tensor = tensor}, {});
  CHECK(plan.parameters() == dry_run(options, {}, {}).parameters());
  return nth(plan.of_rank(0).memory, Tier::kDevice);
}

TEST_CASE("shared layers leave a rank its part of weights and state", "[train]") {
  EngineOptions options = options_of({.global_batch = 1});
  options.model =
      Gpt2Config{.n_layer = 4, .n_head = 8, .n_embd = 256, .n_positions = 64, .vocab_size = 30001};
  const MemoryUsage alone = planned_memory(options, 1);
  for (const int ranks : {2, 4}) {
    const MemoryUsage shared = planned_memory(options, ranks);
    for (const MemoryTag tag : {MemoryTag::kParameters, MemoryTag::kOptimizer}) {
      CAPTURE(ranks, name_of(tag));
      CHECK(ranks * static_cast<double>(nth(shared.tag_bytes_at_peak, tag)) <
            1.06 * static_cast<double>(nth(alone.tag_bytes_at_peak, tag)));
    }
    CHECK(ranks * static_cast<double>(shared.bytes_peak) <
          1.2 * static_cast<double>(alone.bytes_peak));
  }
}

TEST_CASE("no rank has more than its part of the logits", "[train]") {
  EngineOptions options = options_of({.global_batch = 1});
  options.model =
      Gpt2Config{.n_layer = 1, .n_head = 4, .n_embd = 8, .n_positions = 256, .vocab_size = 30001};
  options.length = 256;
  const auto alone = static_cast<double>(planned_memory(options, 1).bytes_peak);
  CHECK(alone > 256 * 30001 * 4);
  CHECK(static_cast<double>(planned_memory(options, 2).bytes_peak) < 0.53 * alone);
  CHECK(static_cast<double>(planned_memory(options, 4).bytes_peak) < 0.29 * alone);
}

}  // namespace
}  // namespace ds
