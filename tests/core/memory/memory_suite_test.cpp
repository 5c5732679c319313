// Every memory resource of core/, alone and stacked, under the suite that all pass.
#include "tests/suites/memory_suite.h"

#include "core/memory/adaptors.h"
#include "core/memory/replay_arena.h"
#include "core/status/error.h"

namespace ds {
namespace {

using testing::Contents;
using testing::MemorySuite;

TEST_CASE("every memory resource keeps blocks apart, aligned and as they were written", "[core]") {
  HostMemory heap;
  MetaMemory meta;
  MemoryAccount account;
  TrackingMemory tracking(heap, account);
  MemoryAccount limit(size_t{1} << 30), stacked_limit(size_t{1} << 30);
  TrackingMemory limiting(heap, limit);
  RecyclingMemory recycling(heap);
  PlanningMemory planning(heap);
  RecordingMemory recording(heap);
  RecyclingMemory recycling_under(tracking);
  TrackingMemory stacked(recycling_under, stacked_limit);
  for (const uint64_t seed : {1, 2, 3}) {
    MemorySuite(heap, Contents::kBytes).run(seed);
    MemorySuite(meta, Contents::kAddressesOnly).run(seed);
    MemorySuite(tracking, Contents::kBytes).run(seed);
    CHECK(account.usage().bytes_now == 0);
    MemorySuite(limiting, Contents::kBytes).run(seed);
    MemorySuite(recycling, Contents::kBytes).run(seed);
    MemorySuite(planning, Contents::kBytes).run(seed);
    MemorySuite(recording, Contents::kBytes).run(seed);
  }
  MemorySuite(stacked, Contents::kBytes).run(4);
}

TEST_CASE("an arena that replays what was recorded passes the same suite", "[core]") {
  MetaMemory meta;
  RecordingMemory recording(meta);
  MemorySuite(recording, Contents::kAddressesOnly).run(7);
  HostMemory heap;
  ArenaPlan plan = plan_arena(recording.spans());
  const size_t bytes = plan.bytes_total;
  void* const block = heap.allocate(bytes, MemoryTag::kActivations);
  {
    ReplayArena arena(std::move(plan), block);
    for (int round = 0; round < 2; ++round) {
      MemorySuite(arena, Contents::kBytes).run(7);
      arena.rewind();
    }
    CHECK_THROWS_AS(MemorySuite(arena, Contents::kBytes).run(8), InternalError);
  }
  heap.deallocate(block, bytes, MemoryTag::kActivations);
}

}  // namespace
}  // namespace ds
