// Meshes of two ranks on a device, of a ring four, too: stages, shared layers, shared samples and
// rings have the losses of one rank there, in fp32, by every schedule and at every stage of ZeRO
// that goes with them; ranks with devices of their own record their steps where that is possible.
#include "core/device/dispatch.h"
#include "tests/train/parallel/meshed_run.h"

namespace ds {
namespace {

using namespace testing;

constexpr int64_t kSteps = 2;

// On a CPU the other suites of this folder have all of it.
bool has_device() { return test_device().device != Device::cpu(); }

Gpt2Config gpt2(bool tied) {
  return {.n_layer = 2,
          .n_head = 2,
          .n_embd = 16,
          .n_positions = 16,
          .vocab_size = 29,
          .resid_pdrop = 0.1,
          .embd_pdrop = 0.1,
          .attn_pdrop = 0.1,
          .tie_word_embeddings = tied};
}

LlamaConfig llama(bool tied) {
  return {.num_hidden_layers = 2,
          .num_attention_heads = 4,
          .num_key_value_heads = 2,
          .hidden_size = 16,
          .intermediate_size = 21,
          .max_position_embeddings = 16,
          .vocab_size = 29,
          .attention_bias = true,
          .mlp_bias = true,
          .attention_dropout = 0.1,
          .tie_word_embeddings = tied};
}

Setting small(int micro_steps = 2) {
  return {.micro_steps = micro_steps,
          .global_batch = 4,
          .host_access = HostAccess::kNever,
          .clipping = 0.05};  // the norm counts
}

// The same on the CPU, where one rank has all.
Setting one_of(Setting setting) {
  setting.ranks = setting.pipe = setting.tensor = setting.sequence = setting.ring = 1;
  setting.stage = 0;
  setting.shares_rows = false;
  setting.recomputed = {};
  setting.host_access = HostAccess::kAlways;
  return setting;
}

Outcome alone(const Setting& setting, const ModelConfig& model) {
  return run_model(one_of(setting), model, kSteps);
}

Setting of_two(Setting setting, int MeshSizes::*axis, int stage = 0) {
  setting.ranks = 2;
  setting.stage = stage;
  setting.pipe = axis == &MeshSizes::pipe ? 2 : 1;
  setting.tensor = axis == &MeshSizes::tensor ? 2 : 1;
  setting.sequence = axis == &MeshSizes::sequence ? 2 : 1;
  return setting;
}

// On the device, with the memory that is planned for its first rank.
Outcome on_device(const Setting& setting, const ModelConfig& model) {
  const RunPlan plan =
      dry_run(options_with(setting, model), mesh_of(setting), ceilings_of(HostAccess::kNever));
  const auto planned = static_cast<double>(nth(plan.of_rank(0).memory, Tier::kDevice).bytes_peak);
  const Outcome outcome = run_model(setting, model, kSteps);
  CHECK(static_cast<double>(outcome.memory.bytes_peak) == Approx(planned).epsilon(0.02));
  return outcome;
}

ModelConfig small_model(bool tied) {
  return tied ? ModelConfig(gpt2(tied)) : ModelConfig(llama(tied));
}

TEST_CASE("two stages on a device have the losses of one rank, by every schedule", "[.][cuda]") {
  if (!has_device()) return;
  for (const bool tied : {true, false}) {
    const ModelConfig model = small_model(tied);
    const Outcome expected = alone(small(), model);
    CHECK(expected.losses.front() != expected.losses.back());
    for (const auto& [schedule, chunks] :
         {std::pair{PipelineKind::k1F1B, 1}, std::pair{PipelineKind::kZeroBubbleH1, 1},
          std::pair{PipelineKind::kZeroBubbleV, 2}}) {
      if (tied && schedule == PipelineKind::kZeroBubbleV) continue;  // refused
      CAPTURE(tied, to_string(schedule));
      Setting cut = of_two(small(), &MeshSizes::pipe, tied ? 1 : 0);
      cut.pipeline = {.schedule = schedule, .chunks = chunks};
      const Outcome here = on_device(cut, model);
      require_near(here, expected, 1e-5);
      cut.offload_activations = true;
      const Outcome offloaded = on_device(cut, model);
      CHECK(offloaded.losses == here.losses);
      CHECK(offloaded.state == here.state);
      CHECK(offloaded.memory.bytes_peak <= here.memory.bytes_peak);
    }
  }
}

TEST_CASE("two ranks that share layers on a device have the losses of one", "[.][cuda]") {
  if (!has_device()) return;
  for (const bool tied : {true, false}) {
    for (const int stage : {0, 3}) {
      CAPTURE(tied, stage);
      Setting shared = of_two(small(stage == 0 ? 1 : 2), &MeshSizes::tensor, stage);
      shared.shares_rows = tied;
      if (stage == 3) shared.recomputed = {.mlp_tiles = 2};
      require_near(on_device(shared, small_model(tied)), alone(shared, small_model(tied)), 1e-5);
    }
  }
}

TEST_CASE("two ranks that share samples on a device have the losses of one", "[.][cuda]") {
  if (!has_device()) return;
  for (const bool tied : {true, false}) {
    const int stage = tied ? 3 : 1;
    CAPTURE(tied, stage);
    const Setting shared = of_two(small(tied ? 1 : 2), &MeshSizes::sequence, stage);
    require_near(on_device(shared, small_model(tied)), alone(shared, small_model(tied)), 1e-5);
  }
}

// This is the same model without dropout of probabilities, which a ring does not have.
ModelConfig model_of_ring(bool tied) {
  Gpt2Config with_learned_positions = gpt2(tied);
  with_learned_positions.attn_pdrop = 0;
  LlamaConfig with_grouped_keys = llama(tied);
  with_grouped_keys.attention_dropout = 0;
  return tied ? ModelConfig(with_learned_positions) : ModelConfig(with_grouped_keys);
}

Setting in_a_ring(Setting setting, int ring, int trading, int stage) {
  setting.ranks = setting.sequence = ring * trading;
  setting.ring = ring;
  setting.stage = stage;
  return setting;
}

TEST_CASE("ranks of a ring on a device have the losses of one", "[.][cuda]") {
  if (!has_device()) return;
  for (const Setting& ring :
       {in_a_ring(small(1), 2, 1, 3), in_a_ring(small(1), 4, 1, 2), in_a_ring(small(1), 2, 2, 0)}) {
    const bool tied = ring.ring == 2;
    CAPTURE(ring.ring, ring.ranks, ring.stage);
    require_near(on_device(ring, model_of_ring(tied)), alone(ring, model_of_ring(tied)), 1e-5);
  }
}

TEST_CASE("ranks with devices of their own record what they share, and stages send in turn",
          "[.][cuda]") {
  if (!has_device()) return;
  if (!test_device().is_emulated) {
    WARN("ranks with GPUs of their own were not tried");
    return;
  }
  const ModelConfig model = small_model(true);
  const auto run = [&](const Setting& setting) {
    return run_model(setting, setting.ring > 1 ? model_of_ring(true) : model, kSteps + 1);
  };
  const Outcome expected = run(one_of(small()));
  const Outcome expected_of_ring = run_model(one_of(small()), model_of_ring(true), kSteps + 1);
  for (Setting own :
       {of_two(small(), &MeshSizes::tensor, 1), of_two(small(), &MeshSizes::sequence, 1),
        of_two(small(), &MeshSizes::pipe), in_a_ring(small(), 2, 1, 1)}) {
    CAPTURE(own.tensor, own.sequence, own.pipe, own.ring);
    own.devices = Devices::kOwn;
    const Outcome outcome = run(own);
    require_losses_near(outcome, own.ring > 1 ? expected_of_ring : expected, 1e-5);
    if (own.tensor == 1 && own.ring == 1) continue;  // they talk on two streams, or take turns
    own.cuda_graphs = false;
    const Outcome unrecorded = run(own);
    CHECK(outcome.losses == unrecorded.losses);
    CHECK(outcome.state == unrecorded.state);
  }
  Setting cut = of_two(small(), &MeshSizes::pipe);
  cut.devices = Devices::kOwn;
  cut.pipeline = {.schedule = PipelineKind::kZeroBubbleH1};
  CHECK_THROWS_WITH(run_model(cut, model, 1), Catch::Contains("which NCCL waits for; take 1f1b"));
}

}  // namespace
}  // namespace ds
