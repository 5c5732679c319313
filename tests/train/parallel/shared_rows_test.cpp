// Training with ranks that share layers and, between these, rows (Korthikanti et al.): the losses
// of one rank, the bits of every stage, what is moved and kept, and checkpoints of any mesh.
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
          .micro_steps = micro_steps,
          .clipping = 0.05,  // the norm counts
          .shares_rows = true};
}

TEST_CASE("ranks that share rows between layers have the losses of one that has all", "[train]") {
  for (const ModelConfig& model :
       {ModelConfig(gpt2_of_four_heads(true, 0.2)), ModelConfig(llama_with_biases(false)),
        ModelConfig(llama_with_biases(false, 0, 2))}) {
    const Outcome alone = run_model(setting_of({1, 1}, 0, 2), model);
    for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}, Meshed{4, 2, 2}}) {
      // If each rank has one head of keys, Ulysses has nothing to share out.
      if (dimensions(model).kv_heads % (mesh.tensor * mesh.sequence) != 0 && mesh.sequence > 1) {
        continue;
      }
      CAPTURE(model.index(), mesh.ranks, mesh.tensor, mesh.sequence);
      require_losses_near(run_model(setting_of(mesh, 3, 2), model), alone, 1e-5);
    }
  }
}

TEST_CASE("stages agree to the bit over shared rows, and so do blocks that are run again",
          "[train]") {
  Setting setting = setting_of({4, 2}, 0, 3);
  const Outcome expected = require_stages_alike(setting, gpt2_of_four_heads(true, 0.1), 3);
  setting.stage = 3;
  setting.recomputed = {.recompute = {.part = RecomputedPart::kBlock}};
  CHECK(run_model(setting, gpt2_of_four_heads(true, 0.1), 3).state == expected.state);
}

TEST_CASE("a run goes on with rows that are shared by others", "[train]") {
  const Outcome whole = run_model(setting_of({1, 1}, 0), gpt2_of_four_heads(true, 0.1), 5);
  const std::vector<Meshed> meshes{{2, 2}, {4, 4}, {1, 1}};
  for (size_t i = 0; i < meshes.size(); ++i) {
    const Meshed& first = meshes[i];
    const Meshed& second = meshes[(i + 1) % meshes.size()];
    CAPTURE(first.ranks, second.ranks);
    require_goes_on(setting_of(first, 3), setting_of(second, 1), gpt2_of_four_heads(true, 0.1),
                    whole);
  }
}

TEST_CASE("shared rows move as much as whole ones, in two halves, as planned", "[train]") {
  for (const Meshed mesh : {Meshed{2, 2}, Meshed{4, 4}, Meshed{4, 2}}) {
    CAPTURE(mesh.ranks, mesh.tensor);
    const Setting setting = setting_of(mesh, 2, 3);
    const EngineOptions options = options_with(setting, gpt2_of_four_heads(true));
    const Moved moved = moved_by(setting, options).front();
    // Two gathers and two scatters of activations in each layer's pass, one of each around what
    // lies between embedding and head (arXiv 2205.05198, section 4.2.2); three numbers of each
    // token for the loss; and once a step the gradients of two norms a layer and a last one.
    const int64_t ranks = mesh.tensor, layers = 2, width = 32, item = 4;
    const int64_t tokens = options.micro_batch * options.length;
    const int64_t half = tokens * width * item * (ranks - 1) / ranks;
    const auto& tensor = moved.traffic.at("tensor");
    CHECK(tensor.at("reduce_scatter").wire_bytes == 3 * (4 * layers + 2) * half);
    CHECK(tensor.at("all_gather").wire_bytes ==
          3 * ((4 * layers + 2) * half + 3 * tokens * item * (ranks - 1)));
    const int64_t norms = (2 * layers + 1) * 2 * width * item / (mesh.ranks / mesh.tensor);
    CHECK(tensor.at("all_reduce").wire_bytes == 2 * norms * (ranks - 1) / ranks);
    check_as_planned(moved);
  }
}

TEST_CASE("shared rows leave a rank its part of what lies between layers", "[train]") {
  Setting setting{.global_batch = 8};
  EngineOptions options = options_of(setting);
  options.model = Gpt2Config{.n_layer = 4,
                             .n_head = 4,
                             .n_embd = 128,
                             .n_positions = 64,
                             .vocab_size = 64,
                             .resid_pdrop = 0.1,
                             .embd_pdrop = 0.1,
                             .attn_pdrop = 0};
  options.length = 64;
  const auto activations = [&](bool shares) {
    options.shared_layers.rows = shares;
    const RunPlan plan = dry_run(options, {.tensor = 4}, {});
    const MemoryUsage memory = nth(plan.of_rank(0).memory, Tier::kDevice);
    return static_cast<double>(nth(memory.tag_bytes_at_peak, MemoryTag::kActivations));
  };
  CHECK(activations(true) < 0.85 * activations(false));
}

}  // namespace
}  // namespace ds
