// How slices are cut into parts, and what fields come with them.
#include "zero/layout/state_parts.h"

#include <array>

#include "core/values/rng.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::string cut(std::vector<int64_t> slices, StateShare share, int64_t part_numel) {
  return to_string(state_parts(slices, share, part_numel));
}

TEST_CASE("slices are cut every part_numel elements, on what they are aligned to", "[zero]") {
  CHECK(cut({160, 96}, {}, INT64_MAX) == "0: 0+160; 1: 0+96");
  CHECK(cut({160, 96}, {}, 64) == "0: 0+64 64+64 128+32; 1: 0+64 64+32");
  CHECK(cut({160, 96}, {}, 95) == "0: 0+64 64+64 128+32; 1: 0+64 64+32");
  CHECK(cut({64}, {}, 1) == "0: 0+32 32+32");  // never less than an alignment
  CHECK(cut({}, {}, 64).empty());
}

TEST_CASE("parts are never more than tables can hold, however small they were to be", "[zero]") {
  const int64_t numel = int64_t{7} << 30;
  const std::vector<StatePart> parts = state_parts(std::array{numel, numel}, {}, 1);
  CHECK(std::ssize(parts) <= kMostStateParts + 2);
  CHECK(std::ssize(parts) > kMostStateParts / 2);
  CHECK(parts.back().begin + parts.back().numel == numel);
  CHECK(parts.front().numel % 32 == 0);
  // If there are few enough parts, the size is as was asked.
  CHECK(state_parts(std::array{int64_t{1} << 18}, {}, 32).front().numel == 32);
}

TEST_CASE("shares of slices leave nothing out and have nothing twice", "[zero]") {
  CHECK(cut({160, 96}, {.first = 0, .last = 0.3}, INT64_MAX) == "0: 0+32");
  CHECK(cut({160, 96}, {.first = 0.3, .last = 1}, INT64_MAX) == "0: 32+128; 1: 0+96");
  CHECK(cut({160, 96}, {.first = 0, .last = 0}, 64).empty());
  CHECK(cut({160, 96}, {.first = 1, .last = 1}, 64).empty());
  const Rng rng(7, "shares");
  for (uint64_t i = 0; i < 200; ++i) {
    const std::vector<int64_t> slices{32 * (1 + static_cast<int64_t>(rng.bits(3 * i) % 50)),
                                      32 * (1 + static_cast<int64_t>(rng.bits(3 * i + 1) % 50))};
    const double share = static_cast<double>(rng.bits(3 * i + 2) % 101) / 100;
    std::vector<StatePart> parts = state_parts(slices, {.first = 0, .last = share}, 96);
    for (const StatePart& part : state_parts(slices, {.first = share, .last = 1}, 96)) {
      parts.push_back(part);
    }
    std::vector<int64_t> seen(2, 0);
    std::ranges::sort(parts, {},
                      [](const StatePart& part) { return std::pair(part.bucket, part.begin); });
    for (const StatePart& part : parts) {
      REQUIRE(part.begin == seen[static_cast<size_t>(part.bucket)]);
      REQUIRE((part.numel > 0 && part.numel <= 96));
      seen[static_cast<size_t>(part.bucket)] += part.numel;
    }
    REQUIRE(seen == slices);
  }
}

TEST_CASE("a part has the fields of its slice that lie in it, from where it begins", "[zero]") {
  const std::vector<ShardField> fields{{.param = 4, .param_begin = 100, .numel = 50, .offset = 0},
                                       {.param = 7, .param_begin = 0, .numel = 20, .offset = 64}};
  const auto within = [&](int64_t begin, int64_t numel) {
    return fields_within(fields, {.bucket = 0, .begin = begin, .numel = numel});
  };
  CHECK(within(0, 96) == fields);
  CHECK(within(0, 32) == std::vector<ShardField>{{4, 100, 32, 0}});
  CHECK(within(32, 64) == std::vector<ShardField>{{4, 132, 18, 0}, {7, 0, 20, 32}});
  CHECK(within(64, 32) == std::vector<ShardField>{{7, 0, 20, 0}});
  CHECK(within(96, 32).empty());
}

}  // namespace
}  // namespace ds
