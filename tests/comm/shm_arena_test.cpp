#include "comm/shm/arena.h"
#include "core/status/error.h"
#include "tests/suites/memory_suite.h"

namespace ds::detail {

TEST_CASE("shared memory is a memory resource as any other", "[comm]") {
  ShmArena arena(size_t{256} << 20);
  for (const uint64_t seed : {1, 2, 3}) {
    testing::MemorySuite(arena, testing::Contents::kBytes).run(seed);
  }
}

TEST_CASE("what an arena cannot hold is refused, and it goes on", "[comm]") {
  ShmArena arena(size_t{8} << 20);
  CHECK_THROWS_AS(arena.allocate(arena.reserved_bytes() + 1, MemoryTag::kBuckets), OutOfMemory);
  void* const block = arena.allocate(100, MemoryTag::kBuckets);
  CHECK(arena.offset_of(static_cast<std::byte*>(block), 100).has_value());
  CHECK_FALSE(arena.offset_of(arena.base() + arena.reserved_bytes(), 1).has_value());
  arena.deallocate(block, 100, MemoryTag::kBuckets);
}

}  // namespace ds::detail
