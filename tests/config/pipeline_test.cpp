// Pipeline parallelism in a file: what cannot be cut, what excludes it, what has no effect.
#include <fmt/format.h>

#include "config/elastic_options.h"
#include "config/load.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/config_texts.h"

namespace ds {
namespace {

using test::problems_of;

std::string gpt2(int stages, const std::string& keys = "", const std::string& more = "") {
  return fmt::format(R"({{"model": {{"family": "gpt2", "n_layer": 4}},
                         "pipeline": {{"stages": {}{}}}{}}})",
                     stages, keys, more);
}

TEST_CASE("stages without a layer are one error", "[config]") {
  for (const int stages : {0, 1, 2, 6}) {
    CHECK(problems_of(gpt2(stages), Severity::kError).empty());
  }
  CHECK(problems_of(gpt2(7), Severity::kError) ==
        "pipeline.stages: 7 stages need a layer each, and the model has 6 (the embedding, 4 blocks "
        "and the head); expected at most 6 stages\n");
  CHECK(problems_of(gpt2(4, R"(, "schedule": "interleaved", "chunks": 2)"), Severity::kError) ==
        "pipeline.stages: 4 stages of 2 chunks need a layer each, and the model has 6 (the "
        "embedding, 4 blocks and the head); expected at most 3 stages\n");
  CHECK(problems_of(gpt2(3, R"(, "schedule": "interleaved", "chunks": 2)"), Severity::kError)
            .empty());
}

TEST_CASE("a schedule that cannot do with tied tables, or with so many micro-batches, says so",
          "[config]") {
  CHECK_THAT(problems_of(gpt2(2, R"(, "schedule": "zb_v")"), Severity::kError),
             Catch::StartsWith("pipeline.stages: the schedule zb_v has the first and the last"));
  const std::string untied = R"({"model": {"family": "llama", "num_hidden_layers": 4,
      "tie_word_embeddings": false}, "pipeline": {"stages": 2, "schedule": "zb_v"}})";
  CHECK(problems_of(untied, Severity::kError).empty());
  const auto rounds = [](int micro_batches) {
    return gpt2(2, R"(, "schedule": "interleaved")",
                fmt::format(R"(, "gradient_accumulation_steps": {})", micro_batches));
  };
  CHECK(problems_of(rounds(4), Severity::kError).empty());
  CHECK_THAT(problems_of(rounds(3), Severity::kError),
             Catch::StartsWith("pipeline.schedule: 3 micro-batches in a step"));
  CHECK(micro_batch_conflict({.stages = 2, .chunks = 1}, 3).empty());
}

TEST_CASE("what follows one micro-batch at a time excludes stages", "[config]") {
  const auto said = [](const std::string& more) {
    return problems_of(gpt2(2, "", ", " + more), Severity::kError);
  };
  for (const int stage : {0, 1}) {
    CHECK(said(fmt::format(R"("zero_optimization": {{"stage": {}}})", stage)).empty());
  }
  for (const int stage : {2, 3}) {
    const std::string more = fmt::format(R"("zero_optimization": {{"stage": {}}})", stage);
    CHECK_THAT(said(more),
               Catch::StartsWith(fmt::format("pipeline.stages: excludes ZeRO stage {}", stage)));
    CHECK(problems_of(gpt2(1, "", ", " + more), Severity::kError).empty());
  }
  const auto offloaded = [&](const char* more) {
    return said(fmt::format(R"("zero_optimization": {{"stage": 1, "offload_optimizer": {{
        "device": "cpu"{}}}}})",
                            more));
  };
  CHECK(offloaded("").empty());
  CHECK_THAT(offloaded(R"(, "super_offload": true)"),
             Catch::Contains("pipeline.stages: excludes offload_optimizer.super_offload"));
  CHECK_THAT(said(R"("zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"},
                      "zenflow": {}})"),
             Catch::Contains("pipeline.stages: excludes zenflow"));
  CHECK_THAT(said(R"("optimizer": {"type": "OneBitAdam"})"),
             Catch::Contains("pipeline.stages: excludes 1-bit optimizers"));
  CHECK_THAT(said(R"("sparse_gradients": true)"),
             Catch::Contains("pipeline.stages: excludes sparse_gradients"));
  CHECK(said(R"("train": {"offload_activations": true})").empty());
  CHECK(said(R"("activation_checkpointing": {"cpu_checkpointing": true})").empty());
  CHECK_THAT(said(R"("flops_profiler": {"enabled": true})"),
             Catch::Contains("pipeline.stages: excludes flops_profiler"));
  CHECK_THAT(said(R"("train": {"sample_prompt": "a"})"),
             Catch::Contains("train.sample_prompt: ranks that have a part of the model "
                             "(pipeline.stages)"));
}

TEST_CASE("NCCL carries the messages of 1F1B alone", "[config]") {
  const std::string nccl = R"(, "communication": {"backend": "nccl"})";
  CHECK(problems_of(gpt2(2, "", nccl), Severity::kError).empty());
  CHECK_THAT(problems_of(gpt2(2, R"(, "schedule": "gpipe")", nccl), Severity::kError),
             Catch::StartsWith("pipeline.schedule: sends before its peer receives"));
}

TEST_CASE("an unknown partition is refused, and intervals that contradict a section", "[config]") {
  CHECK(problems_of(gpt2(2, R"(, "partition": "Type:block")"), Severity::kError).empty());
  CHECK_THAT(problems_of(gpt2(2, R"(, "partition": "by hand")"), Severity::kError),
             Catch::Contains("pipeline.partition: \"by hand\", expected best, uniform"));
  const std::string section = R"(, "activation_checkpointing": {"granularity": "mlp"})";
  CHECK_THAT(
      problems_of(gpt2(2, R"(, "activation_checkpoint_interval": 2)", section), Severity::kError),
      Catch::Contains("pipeline.activation_checkpoint_interval: contradicts"));
}

TEST_CASE("keys of a pipeline have no effect with one stage, or without what they speak of",
          "[config]") {
  CHECK_THAT(
      problems_of(gpt2(1, R"(, "schedule": "zb_h1", "partition": "uniform")"), Severity::kNote),
      Catch::Contains("pipeline.schedule: has no effect with one stage") &&
          Catch::Contains("pipeline.partition: has no effect with one stage"));
  CHECK_THAT(problems_of(gpt2(2, R"(, "chunks": 4, "pipe_partitioned": false)"), Severity::kNote),
             Catch::Contains("pipeline.chunks: has no effect unless schedule is interleaved") &&
                 Catch::Contains("pipe_partitioned: has no effect without tensor parallelism"));
}

TEST_CASE("a world is pipe times data times what shares samples and layers", "[config]") {
  const Config config =
      read_config_text(gpt2(2, "", R"(, "tensor_parallel": {"autotp_size": 2})"), "f").config;
  CHECK(data_ranks(config, 8) == 2);
  CHECK_THROWS_WITH(data_ranks(config, 6), Catch::Contains("6 ranks cannot be split"));
}

}  // namespace
}  // namespace ds
