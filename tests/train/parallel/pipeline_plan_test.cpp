// How long stages take together, by times that are given, and what keys make of a model's cut.
#include "train/plan/pipeline_plan.h"

#include "config/load.h"
#include "core/status/error.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/train/runs/small_engine.h"
#include "train/assemble.h"

namespace ds {
namespace {

EngineOptions options_by(PipelineKind schedule, int micro_steps, int chunks = 1) {
  EngineOptions options = testing::options_of({.micro_steps = micro_steps});
  options.model =
      Gpt2Config{.n_layer = 6, .n_head = 2, .n_embd = 32, .n_positions = 16, .vocab_size = 29};
  options.pipeline = {.schedule = schedule, .chunks = chunks, .partition = "uniform"};
  return options;
}

WorkSeconds work_of(double forward, double backward, double ending = 0) {
  return {.each = {{{0, PipelineOp::kForwardPass}, forward},
                   {{0, PipelineOp::kBackwardPass}, backward},
                   {{0, PipelineOp::kBackwardInput}, backward / 2},
                   {{0, PipelineOp::kBackwardWeight}, backward / 2}},
          .ending = ending};
}

TEST_CASE("equal stages have the bubble of the theory, and reduce behind it", "[train]") {
  const std::vector<WorkSeconds> work(4, work_of(1e-3, 2e-3, 5e-4));
  const int m = 4, p = 4;
  const PipelinePlan plain = plan_pipeline(options_by(PipelineKind::k1F1B, m), work, 0);
  CHECK(plain.bubble == Approx(1.0 * (p - 1) / (m + p - 1)));
  CHECK(plain.seconds == Approx(3e-3 * (m + p - 1) + 5e-4));
  CHECK(plain.micro_batches == m);
  REQUIRE(plain.layers.size() == 4);
  CHECK((plain.layers[3].front().begin == 6 && plain.layers[3].front().end == 8));
  const PipelinePlan h1 = plan_pipeline(options_by(PipelineKind::kZeroBubbleH1, m), work, 0);
  CHECK(h1.seconds == Approx(1e-3 * (3 * m + p - 1) + 5e-4));
  CHECK(plan_pipeline(options_by(PipelineKind::k1F1B, m), work, 1e-3).seconds > plain.seconds);
}

TEST_CASE("the slowest stage sets the pace, and of its ranks the slowest", "[train]") {
  std::vector<WorkSeconds> work(2, work_of(1e-3, 2e-3));
  work[1] = slower_of(work_of(2e-3, 1e-3, 1e-3), work_of(1e-3, 4e-3));
  CHECK(work[1].ending == 1e-3);
  const int m = 8;
  const PipelinePlan plan = plan_pipeline(options_by(PipelineKind::k1F1B, m), work, 0);
  // It waits for the first forward pass only, and the first stage for its last gradient.
  CHECK(plan.seconds == Approx(1e-3 + m * 6e-3 + 2e-3 + 1e-3));
}

Config config_of(const std::string& pipeline, const std::string& more = "") {
  return parse_config(fmt::format(
      R"({{"model": {{"family": "gpt2"}}, "data": {{"train": ["/t.txt"]}}, "train_batch_size": 8,
          "optimizer": {{"type": "AdamW"}}, "pipeline": {{{}}}{}}})",
      pipeline, more));
}

TEST_CASE("a file's pipeline is that of the engine, over the mesh", "[train]") {
  const std::string keys = R"("stages": 2, "schedule": "interleaved", "chunks": 3,
      "partition": "uniform", "grad_partitioned": false)";
  const std::string more = R"(, "gradient_accumulation_steps": 2,
      "tensor_parallel": {"autotp_size": 2})";
  const EngineOptions options = engine_options(config_of(keys, more), Gpt2Config{}, 8);
  CHECK(options.pipeline.schedule == PipelineKind::kInterleaved);
  CHECK(options.pipeline.chunks == 3);
  CHECK(options.pipeline.partition == "uniform");
  CHECK(options.pipeline.shares_activations);
  CHECK_FALSE(options.pipeline.shares_gradients);
  const MeshSizes mesh = job_mesh(config_of(keys, more), 8, 8);
  CHECK((mesh.pipe == 2 && mesh.data == 2 && mesh.tensor == 2));
  CHECK(options.micro_batch == 2);
  const EngineOptions plain = engine_options(config_of(R"("chunks": 3)"), Gpt2Config{}, 8);
  CHECK((plain.pipeline.chunks == 1 && plain.micro_batch == 1));
}

TEST_CASE("an interval asks for checkpoints of so many blocks", "[train]") {
  const auto recomputed = [](const std::string& pipeline, const std::string& more = "") {
    return engine_options(config_of(pipeline, more), Gpt2Config{}, 2).recomputed;
  };
  CHECK(recomputed("").recompute.part == RecomputedPart::kNone);
  const RecomputedBlocks every = recomputed(R"("activation_checkpoint_interval": 3)");
  CHECK(every.recompute.part == RecomputedPart::kBlock);
  CHECK(every.per_segment == 3);
  const std::string section = R"(, "activation_checkpointing": {
      "synchronize_checkpoint_boundary": true})";
  CHECK(recomputed(R"("activation_checkpoint_interval": 3)", section).recompute.synchronize);
  CHECK(recomputed(R"("activation_checkpoint_interval": 3)", section).per_segment == 3);
}

TEST_CASE("a model that cannot be cut is refused where its sizes are known", "[train]") {
  // The model is in a folder, which has not been opened when the file is read.
  const auto refused = [](const std::string& keys, int ranks) {
    const Config config = parse_config(fmt::format(
        R"({{"model": {{"folder": "/m"}}, "data": {{"train": ["/t.txt"]}}, "train_batch_size": 6,
            "train_micro_batch_size_per_gpu": 2, "optimizer": {{"type": "AdamW"}},
            "pipeline": {{{}}}}})",
        keys));
    engine_options(config, Gpt2Config{.n_layer = 2}, ranks);
  };
  CHECK_THROWS_WITH(refused(R"("stages": 8)", 8),
                    Catch::StartsWith("pipeline.stages: 8 stages need a layer each"));
  CHECK_THROWS_WITH(refused(R"("stages": 2, "schedule": "zb_v")", 2),
                    Catch::StartsWith("pipeline.stages: the schedule zb_v"));
  CHECK_THROWS_WITH(refused(R"("stages": 2, "partition": "type:(")", 2),
                    Catch::Contains("no regular expression"));
  CHECK_THROWS_WITH(refused(R"("stages": 2, "partition": "type:Conv")", 2),
                    Catch::Contains("none of the 4 layers"));
  CHECK_THROWS_WITH(refused(R"("stages": 2, "schedule": "interleaved")", 2),
                    Catch::StartsWith("pipeline.schedule: 3 micro-batches"));
}

}  // namespace
}  // namespace ds
