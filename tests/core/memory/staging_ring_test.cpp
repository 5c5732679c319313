#include "core/device/staging_ring.h"

#include <set>

#include "core/memory/adaptors.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

TEST_CASE("places take turns, and one that is not given back keeps its turn", "[core]") {
  StagingRing ring(100, 3, nullptr);
  std::set<const std::byte*> places;
  for (int i = 0; i < 3; ++i) {
    std::byte* const place = ring.take();
    CHECK(ring.take() == place);
    CHECK(reinterpret_cast<uintptr_t>(place) % kMemoryAlignment == 0);
    std::fill_n(place, 100, std::byte{1});  // a sanitizer sees what is not the ring's
    places.insert(place);
    ring.give_back({});
  }
  CHECK(places.size() == 3);
  CHECK(*places.begin() + 128 <= *std::next(places.begin()));
  CHECK(places.contains(ring.take()));
}

TEST_CASE("copies by the ring arrive, whatever becomes of what they were made of", "[core]") {
  testing::CpuStream cpu;
  StagingRing ring(sizeof(int64_t), 2, nullptr);
  std::array<int64_t, 7> to{};
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t value = 10 + static_cast<int64_t>(i);
    ring.copy(&value, &to[i], sizeof value, cpu.stream);
  }
  CHECK(to == std::array<int64_t, 7>{10, 11, 12, 13, 14, 15, 16});
  const std::array<std::byte, 65> long_one{};
  CHECK_THROWS_WITH(ring.copy(long_one.data(), to.data(), 65, cpu.stream),
                    Catch::Contains("65 bytes in places of 64"));
}

TEST_CASE("a ring lies in the memory that it is given, and gives it back", "[core]") {
  HostMemory host;
  MemoryAccount account;
  TrackingMemory pinned(host, account);
  {
    const StagingRing ring(65, 4, &pinned);
    CHECK(account.usage().bytes_now == 4 * 128);
  }
  CHECK(account.usage().bytes_now == 0);
  CHECK_THROWS_AS(StagingRing(8, 0, &pinned), InternalError);
}

}  // namespace
}  // namespace ds
