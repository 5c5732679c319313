// What memory resources promise beyond the suite: books that add up after failures, limits that are
// given back, plans that stay near their lower bound.
#include <algorithm>
#include <map>
#include <thread>
#include <vector>

#include "core/memory/adaptors.h"
#include "core/memory/replay_arena.h"
#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

// Refuses when it is told to, and knows what is out.
class Refusing final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override {
    if (refuses) throw OutOfMemory("refused upstream");
    out += bytes;
    return heap_.allocate(bytes, tag);
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    out -= bytes;
    heap_.deallocate(pointer, bytes, tag);
  }
  bool refuses = false;
  size_t out = 0;

 private:
  HostMemory heap_;
};

constexpr MemoryTag kTag = MemoryTag::kScratch;

TEST_CASE("every purpose of memory has a name of its own", "[core]") {
  std::map<std::string_view, int> names;
  for (int tag = 0; tag < kMemoryTags; ++tag) ++names[name_of(static_cast<MemoryTag>(tag))];
  CHECK(names.size() == kMemoryTags);
  CHECK(names.contains("parameters"));
  CHECK(names.contains("optimizer"));
}

TEST_CASE("the breakdown of a peak is that of its moment, not of each purpose's own", "[core]") {
  MemoryAccount account;
  const auto at = [](MemoryTag tag) { return static_cast<size_t>(tag); };
  account.add(100, MemoryTag::kGradients);
  account.remove(100, MemoryTag::kGradients);
  account.add(60, MemoryTag::kParameters);
  account.add(60, MemoryTag::kBuckets);
  account.add(0, MemoryTag::kScratch);
  account.remove(60, MemoryTag::kBuckets);
  account.add(50, MemoryTag::kActivations);
  const MemoryUsage usage = account.usage();
  CHECK(usage.bytes_peak == 120);
  CHECK(usage.bytes_now == 110);
  CHECK(usage.tag_bytes_at_peak[at(MemoryTag::kGradients)] == 0);
  CHECK(usage.tag_bytes_at_peak[at(MemoryTag::kParameters)] == 60);
  CHECK(usage.tag_bytes_at_peak[at(MemoryTag::kBuckets)] == 60);
  CHECK(usage.tag_bytes_now[at(MemoryTag::kActivations)] == 50);
  // What only reaches the peak again leaves the first breakdown.
  account.add(10, MemoryTag::kScratch);
  CHECK(account.usage().tag_bytes_at_peak[at(MemoryTag::kScratch)] == 0);
}

TEST_CASE("two resources with one account have the peak of their sum", "[core]") {
  HostMemory heap;
  MemoryAccount account;
  TrackingMemory first(heap, account), second(heap, account);
  void* const a = first.allocate(1000, kTag);
  void* const b = second.allocate(500, kTag);
  first.deallocate(a, 1000, kTag);
  second.deallocate(b, 500, kTag);
  CHECK(account.usage().bytes_peak == 1500);
  CHECK(account.usage().bytes_now == 0);
}

TEST_CASE("an allocation that failed upstream is in nobody's books", "[core]") {
  Refusing upstream;
  MemoryAccount account;
  TrackingMemory tracking(upstream, account);
  MemoryAccount limit(1000);
  TrackingMemory limiting(upstream, limit);
  RecyclingMemory recycling(upstream);
  upstream.refuses = true;
  for (int i = 0; i < 5; ++i) {
    CHECK_THROWS_WITH(tracking.allocate(600, kTag), "refused upstream");
    CHECK_THROWS_WITH(limiting.allocate(600, kTag), "refused upstream");
    CHECK_THROWS_WITH(recycling.allocate(600, kTag), "refused upstream");
  }
  CHECK(account.usage().bytes_peak == 0);
  upstream.refuses = false;
  // The whole limit is still there.
  void* const all = limiting.allocate(1000, kTag);
  CHECK_THROWS_AS(limiting.allocate(1, kTag), OutOfMemory);
  limiting.deallocate(all, 1000, kTag);
  void* const kept = recycling.allocate(600, kTag);
  recycling.deallocate(kept, 600, kTag);
  CHECK(upstream.out == 600);
}

TEST_CASE("a limit holds for whoever shares it, to the byte", "[core]") {
  HostMemory heap;
  MemoryAccount account(64 * 100, "memory");
  TrackingMemory limited(heap, account);
  std::vector<std::thread> threads;
  std::vector<int> granted(4, 0);
  for (size_t t = 0; t < granted.size(); ++t) {
    threads.emplace_back([&, t] {
      std::vector<void*> mine;
      for (int i = 0; i < 200; ++i) {
        try {
          mine.push_back(limited.allocate(64, kTag));
        } catch (const OutOfMemory&) {
          break;
        }
      }
      granted[t] = static_cast<int>(mine.size());
      for (void* const pointer : mine) limited.deallocate(pointer, 64, kTag);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : granted) CHECK(count <= 100);
  void* const all = limited.allocate(6400, kTag);  // everything was given back
  CHECK_THROWS_WITH(limited.allocate(1, MemoryTag::kOptimizer),
                    "memory limit: 1 bytes for optimizer asked, 0 of 6400 bytes left");
  limited.deallocate(all, 6400, kTag);
}

// The allocators of sanitizers end the process at such a request.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("more than the machine can address is refused with the size and the purpose", "[core]") {
  HostMemory heap;
  CHECK_THROWS_AS(heap.allocate(size_t{1} << 62, MemoryTag::kGradients), OutOfMemory);
  CHECK_THROWS_WITH(heap.allocate(size_t{1} << 62, MemoryTag::kGradients),
                    Catch::Contains("4611686018427387904 bytes for gradients"));
}
#endif

TEST_CASE("recycling under a load of many sizes never holds more than was out at once", "[core]") {
  Refusing upstream;
  {
    RecyclingMemory memory(upstream);
    const Rng rng(5, "recycling");
    std::vector<std::pair<void*, size_t>> out;
    size_t bytes_out = 0, bytes_out_peak = 0;
    for (uint64_t i = 0; i < 2000; ++i) {
      const uint32_t draw = rng.bits(i);
      if (draw % 5 < 3 || out.empty()) {
        const size_t bytes = 64 * (1 + draw / 5 % 13);
        out.emplace_back(memory.allocate(bytes, kTag), bytes);
        bytes_out += bytes;
      } else {
        const size_t at = draw / 5 % out.size();
        memory.deallocate(out[at].first, out[at].second, kTag);
        bytes_out -= out[at].second;
        out.erase(out.begin() + static_cast<std::ptrdiff_t>(at));
      }
      bytes_out_peak = std::max(bytes_out_peak, bytes_out);
      REQUIRE(upstream.out >= bytes_out);
      REQUIRE(upstream.out <= bytes_out_peak);
    }
    for (const auto& [pointer, bytes] : out) memory.deallocate(pointer, bytes, kTag);
  }
  CHECK(upstream.out == 0);
}

// The highest sum of what is alive at one event, by asking every event.
size_t peak_by_events(const std::vector<AllocationSpan>& spans) {
  int64_t last = 0;
  for (const AllocationSpan& span : spans) last = std::max(last, span.end);
  size_t peak = 0;
  for (int64_t event = 0; event < last; ++event) {
    size_t now = 0;
    for (const AllocationSpan& span : spans) {
      if (span.begin > event || span.end <= event) continue;
      now += (span.bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
    }
    peak = std::max(peak, now);
  }
  return peak;
}

TEST_CASE("a plan's lower bound is the highest sum of what lives at once", "[core]") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Rng rng(seed, "plan");
    std::vector<AllocationSpan> spans;
    for (uint64_t i = 0; i < 60; ++i) {
      const int64_t begin = rng.bits(3 * i) % 100;
      spans.push_back({.bytes = 1 + rng.bits(3 * i + 1) % 900,
                       .begin = begin,
                       .end = begin + 1 + rng.bits(3 * i + 2) % 30});
    }
    const ArenaPlan plan = plan_arena(spans);
    CAPTURE(seed);
    CHECK(plan.bytes_peak == peak_by_events(spans));
    CHECK(plan.bytes_total >= plan.bytes_peak);
    size_t end = 0;
    for (size_t i = 0; i < spans.size(); ++i) {
      end = std::max(end, plan.offsets[i] + spans[i].bytes);
    }
    CHECK(end <= plan.bytes_total);
    CHECK(plan_arena(spans).offsets == plan.offsets);
  }
}

TEST_CASE("what follows each other shares one place, what nests lies end to end", "[core]") {
  const ArenaPlan chain = plan_arena({{.bytes = 100, .begin = 0, .end = 1},
                                      {.bytes = 64, .begin = 1, .end = 2},
                                      {.bytes = 128, .begin = 2, .end = 3}});
  CHECK(chain.offsets == std::vector<size_t>{0, 0, 0});
  CHECK(chain.bytes_total == 128);
  const ArenaPlan nested =
      plan_arena({{.bytes = 128, .begin = 0, .end = 3}, {.bytes = 64, .begin = 1, .end = 2}});
  CHECK(nested.offsets == std::vector<size_t>{0, 128});
  CHECK(nested.bytes_total == 192);
  const ArenaPlan nothing = plan_arena({});
  CHECK(nothing.bytes_total == 0);
  CHECK(nothing.bytes_peak == 0);
}

TEST_CASE("an empty allocation has a place of its own in a plan", "[core]") {
  const ArenaPlan plan =
      plan_arena({{.bytes = 0, .begin = 0, .end = 2}, {.bytes = 0, .begin = 1, .end = 2}});
  CHECK(plan.offsets[0] != plan.offsets[1]);
  CHECK(plan.bytes_total == 2 * kMemoryAlignment);
}

TEST_CASE("a recording says when each allocation lived, those that still do to its end", "[core]") {
  MetaMemory meta;
  RecordingMemory recording(meta);
  void* const a = recording.allocate(100, MemoryTag::kParameters);
  void* const b = recording.allocate(200, MemoryTag::kScratch);
  recording.deallocate(a, 100, MemoryTag::kParameters);
  const std::vector<AllocationSpan> spans = recording.spans();
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].bytes == 100);
  CHECK(spans[0].tag == MemoryTag::kParameters);
  CHECK(spans[0].begin == 0);
  CHECK(spans[0].end == 2);
  CHECK(spans[1].begin == 1);
  CHECK(spans[1].end == 3);
  recording.deallocate(b, 200, MemoryTag::kScratch);
  CHECK(recording.spans()[1].end == 3);
}

TEST_CASE("an arena names the first allocation that differs from the dry run", "[core]") {
  HostMemory heap;
  const size_t bytes = 256;
  void* const block = heap.allocate(bytes, kTag);
  {
    ReplayArena arena(
        plan_arena({{.bytes = 100, .begin = 0, .end = 2}, {.bytes = 64, .begin = 1, .end = 3}}),
        block);
    void* const first = arena.allocate(100, kTag);
    CHECK(first == block);
    CHECK_THROWS_WITH(
        arena.allocate(65, MemoryTag::kActivations),
        "replay arena: allocation 1 asks 65 bytes for activations, the dry run had 64");
    void* const second = arena.allocate(64, kTag);
    CHECK_THROWS_WITH(arena.allocate(1, kTag),
                      Catch::Contains("allocation 2 asks 1 bytes for scratch"));
    CHECK_THROWS_WITH(arena.rewind(), Catch::Contains("rewound with 2 live allocations"));
    arena.deallocate(first, 100, kTag);
    CHECK_THROWS_WITH(arena.rewind(), Catch::Contains("rewound with 1 live allocations"));
    arena.deallocate(second, 64, kTag);
    arena.rewind();
    CHECK(arena.allocate(100, kTag) == first);
    arena.deallocate(first, 100, kTag);
  }
  heap.deallocate(block, bytes, kTag);
}

}  // namespace
}  // namespace ds
