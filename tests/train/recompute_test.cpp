// Training with blocks that are run again in the backward pass: bits, memory and plan.
#include "model/activations/recompute.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

RecomputedBlocks recomputed(RecomputedPart part, int64_t per_segment = 1) {
  return {.recompute = {.part = part}, .per_segment = per_segment};
}

std::vector<RecomputedBlocks> ways() {
  return {recomputed(RecomputedPart::kBlock), recomputed(RecomputedPart::kBlock, 2),
          recomputed(RecomputedPart::kAttention), recomputed(RecomputedPart::kMlp)};
}

MemoryUsage planned_memory(const EngineOptions& options, int ranks) {
  return nth(dry_run(options, {.data = ranks}, {}).of_rank(0).memory, Tier::kDevice);
}

size_t activations(const MemoryUsage& memory) {
  return nth(memory.tag_bytes_at_peak, MemoryTag::kActivations);
}

TEST_CASE("runs have the same bits whether activations are kept or made again", "[rankd]") {
  for (const int stage : {0, 3}) {
    for (const int ranks : {1, 2}) {
      Setting setting{
          .ranks = ranks, .stage = stage, .dtype = DType::kBF16, .micro_steps = 2, .dropout = 0.1};
      MemoryFileSystem first_disk;
      const Outcome kept = train(setting, first_disk, 2);
      for (const RecomputedBlocks& way : ways()) {
        CAPTURE(stage, ranks, static_cast<int>(way.recompute.part), way.per_segment);
        setting.recomputed = way;
        MemoryFileSystem disk;
        const Outcome again = train(setting, disk, 2);
        CHECK(again.state == kept.state);
        CHECK(again.losses == kept.losses);
        CHECK(again.memory.bytes_peak == planned_memory(options_of(setting), ranks).bytes_peak);
      }
    }
  }
}

TEST_CASE("twelve blocks that are run again need less than two fifths of the activations",
          "[train]") {
  EngineOptions options = options_of({.dtype = DType::kBF16});
  options.model = Gpt2Config{.n_layer = 12,
                             .n_head = 12,
                             .n_embd = 768,
                             .n_positions = 1024,
                             .vocab_size = 50257,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0};
  options.length = 1024;
  options.micro_batch = 8;
  const auto with = [&](const RecomputedBlocks& way) {
    options.recomputed = way;
    return static_cast<double>(activations(planned_memory(options, 1)));
  };
  const double kept = with({});
  CHECK(with(recomputed(RecomputedPart::kBlock)) < 0.4 * kept);
  CHECK(with(recomputed(RecomputedPart::kBlock, 3)) < 0.5 * kept);
  CHECK(with(recomputed(RecomputedPart::kMlp)) < 0.75 * kept);
  CHECK(with(recomputed(RecomputedPart::kAttention)) < 0.9 * kept);
}

TEST_CASE("an MLP in tiles trains as planned, and gathers its weights once for all of them",
          "[rankd]") {
  Setting setting{.ranks = 2, .stage = 3, .micro_steps = 2};
  MemoryFileSystem first_disk, disk;
  const Outcome at_once = train(setting, first_disk, 2);
  setting.recomputed = {.mlp_tiles = 4};
  const Outcome tiled = train(setting, disk, 2);
  const auto bytes = [&](int64_t tiles) {
    setting.recomputed.mlp_tiles = tiles;
    return dry_run(options_of(setting), {.data = 2}, {}).of_rank(0).wire_bytes;
  };
  CHECK(tiled.memory.bytes_peak == planned_memory(options_of(setting), 2).bytes_peak);
  CHECK(bytes(7) == bytes(2));
  for (size_t i = 0; i < at_once.losses.size(); ++i) {
    CHECK(tiled.losses[i] == Approx(at_once.losses[i]).epsilon(1e-6));
  }
}

TEST_CASE("with tiles and blocks that are run again the width of MLPs hardly counts", "[train]") {
  EngineOptions options = options_of({});
  options.model = Gpt2Config{.n_layer = 2,
                             .n_head = 4,
                             .n_embd = 256,
                             .n_positions = 4096,
                             .vocab_size = 257,
                             .resid_pdrop = 0,
                             .embd_pdrop = 0,
                             .attn_pdrop = 0};
  options.length = 4096;
  options.micro_batch = 1;
  const auto with = [&](int64_t tiles) {
    options.recomputed = recomputed(RecomputedPart::kBlock);
    options.recomputed.mlp_tiles = tiles;
    return static_cast<double>(activations(planned_memory(options, 1)));
  };
  CHECK(with(16) < 0.75 * with(1));
  CHECK(with(64) < 1.01 * with(16));
}

TEST_CASE("what is run again is counted as work", "[train]") {
  EngineOptions options = options_of({});
  const double kept = dry_run(options, {}, {}).of_rank(0).flops_per_step;
  options.recomputed = recomputed(RecomputedPart::kBlock);
  const double again = dry_run(options, {}, {}).of_rank(0).flops_per_step;
  CHECK(again > 1.1 * kept);
  CHECK(again < 1.23 * kept);
}

TEST_CASE("the last product of what is run again is not made, and the last segment is kept",
          "[train]") {
  const auto further = [](RecomputedBlocks blocks, int64_t layers = 3) {
    EngineOptions options = options_of({});
    std::get<Gpt2Config>(options.model).n_layer = layers;
    const double kept = dry_run(options, {}, {}).of_rank(0).flops_per_step;
    options.recomputed = std::move(blocks);
    return dry_run(options, {}, {}).of_rank(0).flops_per_step - kept;
  };
  // 2 of 3 blocks, 12 samples of 16 tokens, 32 wide, an MLP four times as wide.
  const double square = 2.0 * 12 * 16 * 2 * 32 * 32;
  CHECK(further(recomputed(RecomputedPart::kMlp)) == 4 * square);
  const double attention = further(recomputed(RecomputedPart::kAttention));
  CHECK(attention >= 3 * square);
  CHECK(attention < 4 * square);
  // Norms are less than half of a square. The first of two blocks gives what the second one reads.
  for (const int blocks : {1, 2}) {
    const double least = attention + (1 + 4 + (blocks == 2 ? 2 : 0)) * square;
    const double block = further(recomputed(RecomputedPart::kBlock, blocks));
    CHECK(block >= least);
    CHECK(block < least + square / 2);
    // One segment alone is what was asked for, and run again.
    CHECK(further(recomputed(RecomputedPart::kBlock, 3), blocks + 1) > 0);
  }
}

}  // namespace
}  // namespace ds
