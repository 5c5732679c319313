// A slab's memory over a block of the heap, which is never touched by it.
#include "core/cuda/slab_memory.h"

#include "core/status/error.h"
#include "tests/suites/memory_suite.h"

namespace ds {
namespace {

TEST_CASE("memory over a slab passes the suite of memory resources", "[core]") {
  constexpr size_t kBytes = size_t{70} << 20;
  HostMemory heap;
  void* const block = heap.allocate(kBytes, MemoryTag::kScratch);
  {
    SlabMemory memory("slab", block, kBytes);
    for (const uint64_t seed : {1, 2, 3}) {
      testing::MemorySuite(memory, testing::Contents::kBytes).run(seed);
    }
    CHECK(memory.allocate(kBytes, MemoryTag::kScratch) == block);  // all came together again
    CHECK_THROWS_WITH(memory.allocate(1, MemoryTag::kGradients),
                      Catch::Contains("slab: 1 bytes for gradients are wanted, 0 of"));
  }
  heap.deallocate(block, kBytes, MemoryTag::kScratch);
}

TEST_CASE("a block that is not there is refused with what is free and what to do", "[core]") {
  CHECK_THROWS_AS(refuse_block("memory of cuda:3", 5, 4, 10), OutOfMemory);
  CHECK_THROWS_WITH(
      refuse_block("memory of cuda:3", 5, 4, 10),
      Catch::Contains(
          "memory of cuda:3: 5 bytes are wanted in one block, 4 of 10 bytes are free") &&
          Catch::Contains("smaller micro-batch"));
}

}  // namespace
}  // namespace ds
