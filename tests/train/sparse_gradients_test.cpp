// Runs whose token embedding's gradient is exchanged by rows: weights and losses have the bits of
// runs that exchange the whole of it, and plans know what travels and what it takes.
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/train/runs/small_run.h"

namespace ds {
namespace {

using namespace testing;

// Samples have a few of its many tokens.
EngineOptions options_with(const Setting& setting, int64_t tokens, bool tied = false) {
  EngineOptions options = options_of(setting);
  Gpt2Config model = small_gpt2(setting.dropout);
  model.vocab_size = 700;
  model.tie_word_embeddings = tied;
  options.model = model;
  options.zero.wire.sparse_tokens = tokens;
  return options;
}

int64_t tokens_of(const Setting& s) {
  return s.global_batch / (s.ranks / s.sequence) / s.micro_steps * 16 / s.sequence;
}

// Bytes that a rank sends along the axis of tokens in a step.
double sent(const EngineOptions& options, const Setting& setting) {
  const RunPlan plan = dry_run(options, mesh_of(setting), {});
  double bytes = 0;
  for (const auto& [axis, ops] : plan.of_rank(0).wire_bytes) {
    for (const auto& [op, of] : ops) bytes += of;
  }
  return bytes;
}

TEST_CASE("training by rows has the bits of training without", "[train]") {
  std::vector<Setting> settings{{.ranks = 1}, {.ranks = 2}, {.ranks = 3}, {.ranks = 4}};
  settings.push_back({.ranks = 2, .micro_steps = 3});
  settings.push_back({.ranks = 2, .dtype = DType::kBF16, .micro_steps = 2, .clipping = 0.01});
  settings.push_back({.ranks = 2, .dtype = DType::kBF16, .clipping = 0});
  settings.push_back({.ranks = 4, .sequence = 2});
  settings.push_back({.ranks = 2, .recomputed = {.recompute = {.part = RecomputedPart::kBlock}}});
  Setting fp16{.ranks = 2, .dtype = DType::kF16, .micro_steps = 2};
  fp16.loss_scale = {.kind = LossScaling::kDynamic, .options = {.init_scale = 4294967296.0F}};
  settings.push_back(fp16);
  for (const Setting& setting : settings) {
    CAPTURE(setting.ranks, setting.sequence, setting.micro_steps, name_of(setting.dtype));
    MemoryFileSystem whole_disk, rows_disk;
    const EngineOptions whole = options_with(setting, 0);
    const EngineOptions rows = options_with(setting, tokens_of(setting));
    const Outcome expected = train(setting, whole, whole_disk, 5);
    const Outcome got = train(setting, rows, rows_disk, 5);
    CHECK(got.losses == expected.losses);
    if (setting.dtype == DType::kF16) CHECK(got.skipped == expected.skipped);
    CHECK(got.state == expected.state);
    CHECK(got.validation_loss == expected.validation_loss);
    CHECK(got.memory.bytes_peak ==
          nth(dry_run(rows, mesh_of(setting), {}).of_rank(0).memory, Tier::kDevice).bytes_peak);
    if (setting.ranks > 1) CHECK(sent(rows, setting) < sent(whole, setting));
  }
}

TEST_CASE("a tied table is exchanged as a whole", "[train]") {
  const Setting setting{.ranks = 2};
  CHECK(sent(options_with(setting, tokens_of(setting), true), setting) ==
        sent(options_with(setting, 0, true), setting));
}

TEST_CASE("a plan knows the traffic of rows", "[train]") {
  const Setting setting{.ranks = 4, .micro_steps = 3};
  const int64_t tokens = tokens_of(setting);
  const double whole = sent(options_with(setting, 0), setting);
  const double rows = sent(options_with(setting, tokens), setting);
  // 700 x 32 numbers, reduced three times and gathered once, against the rows of 16 tokens each.
  const int64_t dense = 3 * 700 * 32 * 4 * (3 + 1) / 4;
  const int64_t sparse = 3 * 3 * tokens * (4 + 32 * 4);
  // Positions are in a bucket of their own then, with padding of their own.
  CHECK(std::abs(whole - rows - static_cast<double>(dense - sparse)) < 0.01 * whole);
}

}  // namespace
}  // namespace ds
