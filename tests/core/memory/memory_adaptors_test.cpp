#include <algorithm>

#include "core/memory/adaptors.h"
#include "core/memory/kept_memory.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// Counts what is out, and never gives the same address twice.
class CountingMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override {
    bytes_held += bytes;
    bytes_held_peak = std::max(bytes_held_peak, bytes_held);
    ++allocations;
    return meta_.allocate(bytes, tag);
  }
  void deallocate(void* /*pointer*/, size_t bytes, MemoryTag /*tag*/) noexcept override {
    bytes_held -= bytes;
  }
  size_t bytes_held = 0;
  size_t bytes_held_peak = 0;
  int allocations = 0;

 private:
  MetaMemory meta_;
};

constexpr MemoryTag kTag = MemoryTag::kBuckets;

TEST_CASE("what is kept goes to later allocations, and back at the end alone", "[core]") {
  CountingMemory upstream;
  {
    KeptMemory kept(upstream);
    void* const large = kept.allocate(1000, kTag);
    void* const small = kept.allocate(100, kTag);
    kept.deallocate(large, 1000, kTag);
    kept.deallocate(small, 100, kTag);
    CHECK(upstream.bytes_held == 1100);
    CHECK(kept.allocate(90, kTag) == small);  // the smallest that has room
    CHECK(kept.allocate(101, kTag) == large);
    CHECK(upstream.allocations == 2);
    CHECK(kept.allocate(1, kTag) != small);
    CHECK(upstream.allocations == 3);
    for (int bucket = 0; bucket < 10; ++bucket) {  // one after the other
      kept.deallocate(large, 1000, kTag);
      CHECK(kept.allocate(1000, kTag) == large);
    }
    CHECK(upstream.bytes_held_peak == 1101);
  }
  CHECK(upstream.bytes_held == 0);
}

TEST_CASE("a planned block has room for what is alive at once, at its places", "[core]") {
  HostMemory heap;
  PlanningMemory planning(heap);
  CHECK(planning.block_bytes() == 0);
  void* const first = planning.allocate(100, MemoryTag::kScratch);
  void* const second = planning.allocate(300, MemoryTag::kScratch);
  CHECK(planning.block_bytes() == kSlabAlignment + 2 * kSlabAlignment);
  planning.deallocate(first, 100, MemoryTag::kScratch);
  void* const third = planning.allocate(200, MemoryTag::kScratch);  // in place of the first
  CHECK(planning.block_bytes() == 3 * kSlabAlignment);
  void* const fourth = planning.allocate(1, MemoryTag::kScratch);
  CHECK(planning.block_bytes() == 4 * kSlabAlignment);
  planning.deallocate(second, 300, MemoryTag::kScratch);
  planning.deallocate(third, 200, MemoryTag::kScratch);
  planning.deallocate(fourth, 1, MemoryTag::kScratch);
  CHECK(planning.block_bytes() == 4 * kSlabAlignment);
}

TEST_CASE("a freed block serves the next request of its size", "[core]") {
  CountingMemory heap;
  RecyclingMemory memory(heap);
  void* const first = memory.allocate(1000, kTag);
  memory.deallocate(first, 1000, kTag);
  CHECK(memory.allocate(1000, kTag) == first);
  CHECK(heap.allocations == 1);
  CHECK(memory.allocate(1000, kTag) != first);  // that one is out
}

TEST_CASE("recycling holds no more than was ever out at once", "[core]") {
  CountingMemory heap;
  {
    RecyclingMemory memory(heap);
    void* const a = memory.allocate(600, kTag);
    void* const b = memory.allocate(400, kTag);
    memory.deallocate(a, 600, kTag);
    memory.deallocate(b, 400, kTag);
    CHECK(heap.bytes_held == 1000);
    void* const c = memory.allocate(700, kTag);  // both kept blocks would be too much beside it
    CHECK(heap.bytes_held <= 1000);
    CHECK(heap.bytes_held_peak == 1000);
    void* const d = memory.allocate(500, kTag);  // a new peak is a new allowance
    CHECK(heap.bytes_held == 1200);
    memory.deallocate(c, 700, kTag);
    memory.deallocate(d, 500, kTag);
  }
  CHECK(heap.bytes_held == 0);
}

TEST_CASE("a tracked peak does not see what is recycled below it", "[core]") {
  HostMemory heap;
  RecyclingMemory recycling(heap);
  MemoryAccount account;
  TrackingMemory memory(recycling, account);
  for (int step = 0; step < 3; ++step) {
    memory.deallocate(memory.allocate(4096, kTag), 4096, kTag);
  }
  CHECK(account.usage().bytes_now == 0);
  CHECK(account.usage().bytes_peak == 4096);
}

}  // namespace
}  // namespace ds
