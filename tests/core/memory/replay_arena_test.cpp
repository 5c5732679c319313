#include "core/memory/replay_arena.h"

#include "core/memory/poison.h"
#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("allocations alive at the same time never overlap, and disjoint ones share bytes",
          "[core]") {
  const Rng rng(7, "arena");
  std::vector<AllocationSpan> spans;
  for (uint64_t i = 0; i < 200; ++i) {
    const auto begin = static_cast<int64_t>(2 * i);
    spans.push_back({.bytes = 1 + rng.bits(2 * i) % 5000,
                     .begin = begin,
                     .end = begin + 1 + static_cast<int64_t>(rng.bits(2 * i + 1) % 40)});
  }
  const ArenaPlan plan = plan_arena(spans);
  for (size_t a = 0; a < spans.size(); ++a) {
    CHECK(plan.offsets[a] % kMemoryAlignment == 0);
    for (size_t b = a + 1; b < spans.size(); ++b) {
      const bool both_alive = spans[a].begin < spans[b].end && spans[b].begin < spans[a].end;
      const bool disjoint = plan.offsets[a] + spans[a].bytes <= plan.offsets[b] ||
                            plan.offsets[b] + spans[b].bytes <= plan.offsets[a];
      REQUIRE((!both_alive || disjoint));
    }
  }
  CHECK(plan.bytes_total >= plan.bytes_peak);
  CHECK(plan.bytes_total <= plan.bytes_peak * 5 / 4);
}

TEST_CASE("an arena replays what was recorded and refuses anything else", "[core]") {
  MetaMemory meta;
  RecordingMemory recording(meta);
  void* a = recording.allocate(100, MemoryTag::kActivations);
  void* b = recording.allocate(200, MemoryTag::kActivations);
  recording.deallocate(a, 100, MemoryTag::kActivations);
  void* c = recording.allocate(64, MemoryTag::kScratch);
  recording.deallocate(b, 200, MemoryTag::kActivations);
  recording.deallocate(c, 64, MemoryTag::kScratch);

  const ArenaPlan plan = plan_arena(recording.spans());
  CHECK(plan.bytes_total == 384);  // c takes a's place
  HostMemory host;
  void* block = host.allocate(plan.bytes_total, MemoryTag::kActivations);
  {
    ReplayArena arena(plan, block);
    for (int round = 0; round < 2; ++round) {
      void* first = arena.allocate(100, MemoryTag::kActivations);
      void* second = arena.allocate(200, MemoryTag::kActivations);
      CHECK(first != second);
      arena.deallocate(first, 100, MemoryTag::kActivations);
      CHECK_THROWS_WITH(arena.allocate(65, MemoryTag::kScratch), Catch::Contains("had 64"));
      CHECK_THROWS_AS(arena.rewind(), InternalError);
      CHECK(arena.allocate(64, MemoryTag::kScratch) == first);
      arena.deallocate(second, 200, MemoryTag::kActivations);
      arena.deallocate(first, 64, MemoryTag::kScratch);
      CHECK_THROWS_WITH(arena.allocate(1, MemoryTag::kScratch), Catch::Contains("allocation 3"));
      arena.rewind();
    }
  }
  host.deallocate(block, plan.bytes_total, MemoryTag::kActivations);
}

TEST_CASE("an arena's memory can be read while it is live and at no other time", "[core]") {
  const ArenaPlan plan =
      plan_arena({{.bytes = 100, .begin = 0, .end = 1}, {.bytes = 60, .begin = 2, .end = 3}});
  HostMemory host;
  void* block = host.allocate(plan.bytes_total, MemoryTag::kActivations);
  const auto* bytes = static_cast<const std::byte*>(block);
  {
    ReplayArena arena(plan, block);
    CHECK(is_poisoned(bytes) == kCanPoison);
    void* first = arena.allocate(100, MemoryTag::kActivations);
    CHECK_FALSE(is_poisoned(bytes));
    CHECK_FALSE(is_poisoned(bytes + 99));
    CHECK(is_poisoned(bytes + 100) == kCanPoison);
    arena.deallocate(first, 100, MemoryTag::kActivations);
    CHECK(is_poisoned(bytes) == kCanPoison);
    void* second = arena.allocate(60, MemoryTag::kActivations);
    CHECK_FALSE(is_poisoned(bytes + 59));
    CHECK(is_poisoned(bytes + 60) == kCanPoison);  // what the first had more is not the second's
    arena.deallocate(second, 60, MemoryTag::kActivations);
  }
  CHECK_FALSE(is_poisoned(bytes));  // whose block it is gets it back
  host.deallocate(block, plan.bytes_total, MemoryTag::kActivations);
}

}  // namespace
}  // namespace ds
