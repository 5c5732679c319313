// Extents of a file: none overlaps another, all are aligned, and what is given back comes together.
#include "offload/extent_allocator.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/status/error.h"
#include "core/values/index.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"

namespace ds {
namespace {

using Catch::Message;

// The same by a list of units, one by one.
class NaiveExtents {
 public:
  NaiveExtents(int64_t bytes, int64_t alignment)
      : alignment_(alignment), used_(to_size(bytes / alignment), false) {}

  std::optional<int64_t> take(int64_t bytes) {
    const size_t units = units_of(bytes);
    for (size_t at = 0; at + units <= used_.size(); ++at) {
      const auto first = used_.begin() + narrow<std::ptrdiff_t>(at);
      if (std::any_of(first, first + narrow<std::ptrdiff_t>(units), [](bool u) { return u; })) {
        continue;
      }
      std::fill_n(first, units, true);
      return narrow<int64_t>(at) * alignment_;
    }
    return std::nullopt;
  }
  void give_back(const Extent& extent) {
    for (size_t i = 0; i < units_of(extent.bytes); ++i) {
      const size_t unit = to_size(extent.offset / alignment_) + i;
      REQUIRE(used_[unit]);
      used_[unit] = false;
    }
  }
  int64_t bytes_free() const { return std::ranges::count(used_, false) * alignment_; }
  int64_t longest_run() const {
    int64_t longest = 0, run = 0;
    for (const bool used : used_) {
      run = used ? 0 : run + 1;
      longest = std::max(longest, run);
    }
    return longest * alignment_;
  }

 private:
  size_t units_of(int64_t bytes) const { return to_size((bytes + alignment_ - 1) / alignment_); }

  int64_t alignment_;
  std::vector<bool> used_;
};

void run_schedule(uint32_t seed, int64_t alignment) {
  test::Draws draws(seed);
  const int64_t bytes = draws.pick(20, 60) * alignment + draws.pick(0, alignment - 1);
  ExtentAllocator extents(bytes, alignment);
  NaiveExtents naive(bytes, alignment);
  std::vector<Extent> taken;
  int refused = 0;
  for (int turn = 0; turn < 400; ++turn) {
    // Now more is taken than given back, now less, so that it is full and empty in turn.
    const bool takes = draws.pick(0, 7) < (turn / 80 % 2 == 0 ? 6 : 2);
    if (takes || taken.empty()) {
      const int64_t wanted = draws.pick(1, 12 * alignment);
      const std::optional<int64_t> expected = naive.take(wanted);
      if (expected) {
        taken.push_back(extents.take(wanted));
        REQUIRE(taken.back() == Extent{*expected, wanted});
      } else {
        REQUIRE_THROWS_AS(extents.take(wanted), OutOfMemory);
        ++refused;
      }
    } else {
      const auto which = taken.begin() + draws.pick(0, narrow<int64_t>(taken.size()) - 1);
      extents.give_back(*which);
      naive.give_back(*which);
      taken.erase(which);
    }
    REQUIRE(extents.bytes_free() == naive.bytes_free());
    REQUIRE(extents.longest_run() == naive.longest_run());
  }
  CHECK(refused > 0);
  for (const Extent& extent : taken) extents.give_back(extent);
  CHECK(extents.longest_run() == extents.bytes());
  CHECK(extents.take(extents.bytes()) == Extent{0, extents.bytes()});
}

TEST_CASE("extents do what a map of single units does", "[offload]") {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    for (const int64_t alignment : {1, 512, 4096}) run_schedule(seed, alignment);
  }
}

TEST_CASE("what has no room is refused with what there is", "[offload]") {
  ExtentAllocator extents(10 * 4096, 4096);
  const Extent first = extents.take(3 * 4096);
  const Extent second = extents.take(4096 + 1);
  extents.take(5 * 4096);
  extents.give_back(first);
  extents.give_back(second);
  extents.take(4096);
  CHECK_THROWS_MATCHES(extents.take(4 * 4096 + 1), OutOfMemory,
                       Message("extents: no room for 16385 bytes (in units of 4096): 16384 of "
                               "40960 are free, the longest run has 16384"));
  CHECK_THROWS_AS(extents.take(int64_t{1} << 62), OutOfMemory);
  CHECK_THROWS_AS(extents.take(0), InternalError);
  CHECK_THROWS_AS(extents.take(-1), InternalError);
}

TEST_CASE("an extent is given back once, and as it was taken", "[offload]") {
  ExtentAllocator extents(8 * 4096, 4096);
  const Extent extent = extents.take(5000);
  CHECK_THROWS_AS(extents.give_back({extent.offset, 5001}), InternalError);
  CHECK_THROWS_AS(extents.give_back({extent.offset + 4096, 5000}), InternalError);
  CHECK_THROWS_AS(extents.give_back({-4096, 5000}), InternalError);
  extents.give_back(extent);
  CHECK_THROWS_AS(extents.give_back(extent), InternalError);
  CHECK_THROWS_AS(ExtentAllocator(-1, 4096), InternalError);
  CHECK_THROWS_AS(ExtentAllocator(4096, 0), InternalError);
}

}  // namespace
}  // namespace ds
