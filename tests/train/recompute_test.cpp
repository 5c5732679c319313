// Training with blocks that are run again in the backward pass: bits, memory and plan.
#include "model/activations/recompute.h"

#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"
#include "tests/train/small_run.h"

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

TEST_CASE("what is run again is counted as work", "[train]") {
  EngineOptions options = options_of({});
  const double kept = dry_run(options, {}, {}).of_rank(0).flops_per_step;
  options.recomputed = recomputed(RecomputedPart::kBlock);
  const double again = dry_run(options, {}, {}).of_rank(0).flops_per_step;
  CHECK(again > 1.15 * kept);
  CHECK(again < 1.34 * kept);
}

}  // namespace
}  // namespace ds
