// Counter-based random numbers: published answers, how the words of a block are handed out, and
// what distributions promise.
#include "core/values/rng.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("philox gives the published numbers for every counter and key", "[core]") {
  // Known answer tests of the Random123 distribution for philox4x32-10.
  using Words = std::array<uint32_t, 4>;
  const uint32_t ones = 0xffffffffU;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU});
  CHECK(philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U},
                   {0xa4093822U, 0x299f31d0U}) ==
        Words{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U});
}

TEST_CASE("a word is its place in its block, and blocks beyond 32 bits differ", "[core]") {
  const Rng rng(5, "blocks");
  for (uint64_t index = 0; index < 40; ++index) {
    CHECK(rng.bits(index) == rng.block(index / 4)[index % 4]);
  }
  CHECK(rng.block(1) != rng.block((uint64_t{1} << 32) + 1));
  CHECK(rng.bits(3) != rng.bits((uint64_t{1} << 34) + 3));
}

TEST_CASE("seeds, names and sub-streams each make a key of their own", "[core]") {
  std::set<uint64_t> keys;
  size_t made = 0;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "ba", "init", "dropout"}) {
      const Rng rng(seed, name);
      keys.insert(rng.key());
      ++made;
      for (uint64_t index = 0; index < 20; ++index) {
        keys.insert(rng.derive(index).key());
        ++made;
      }
    }
  }
  CHECK(keys.size() == made);
  CHECK(Rng(3, "a").derive(1).derive(2).key() != Rng(3, "a").derive(2).derive(1).key());
  CHECK(Rng(3, "a").derive(1).key() == Rng(3, "a").derive(1).key());
}

TEST_CASE("uniform numbers are the upper 24 bits of a word, from 0 and below 1", "[core]") {
  const Rng rng(9, "uniform");
  double sum = 0;
  std::vector<int> tenths(10, 0);
  constexpr uint64_t kDraws = 20000;
  for (uint64_t i = 0; i < kDraws; ++i) {
    const float value = rng.uniform(i);
    REQUIRE(value >= 0.0F);
    REQUIRE(value < 1.0F);
    REQUIRE(value == static_cast<float>(rng.bits(i) >> 8) / 16777216.0F);
    sum += static_cast<double>(value);
    ++tenths[static_cast<size_t>(value * 10)];
  }
  CHECK(std::abs(sum / kDraws - 0.5) < 0.01);
  // 2000 expected in each tenth; 42 is a standard deviation.
  for (const int count : tenths) CHECK(std::abs(count - 2000) < 5 * 42);
}

TEST_CASE("normal numbers have the tails of a normal distribution", "[core]") {
  const Rng rng(10, "tails");
  constexpr size_t kDraws = 40000;
  std::vector<float> values(kDraws);
  rng.normals(0, values);
  const auto beyond = [&](float limit) {
    return std::ranges::count_if(values, [&](float value) { return std::abs(value) > limit; });
  };
  // Shares outside 1, 2 and 3 deviations: 31.73 %, 4.55 %, 0.27 %.
  CHECK(std::abs(static_cast<double>(beyond(1)) - 0.3173 * kDraws) < 500);
  CHECK(std::abs(static_cast<double>(beyond(2)) - 0.0455 * kDraws) < 250);
  CHECK(std::abs(static_cast<double>(beyond(3)) - 0.0027 * kDraws) < 60);
  CHECK(std::ranges::all_of(values, [](float value) { return std::isfinite(value); }));
  const auto positive = std::ranges::count_if(values, [](float value) { return value > 0; });
  CHECK(std::abs(static_cast<double>(positive) - 0.5 * kDraws) < 600);
}

TEST_CASE("a range of normals writes what it was given and no more", "[core]") {
  const Rng rng(7, "edges");
  for (uint64_t first = 0; first < 5; ++first) {
    for (size_t count = 0; count < 12; ++count) {
      std::vector<float> out(count + 1, -99.0F);
      rng.normals(first, std::span(out).first(count));
      CAPTURE(first, count);
      CHECK(out.back() == -99.0F);
      for (size_t i = 0; i < count; ++i) CHECK(out[i] == rng.normal(first + i));
    }
  }
}

}  // namespace
}  // namespace ds
