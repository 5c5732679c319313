#include "data/supervised/packing.h"

#include <rapidjson/document.h>

#include <algorithm>
#include <numeric>

#include "core/files/file.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

using Bins = std::vector<std::vector<int64_t>>;

TEST_CASE("examples are packed as TRL packs them", "[data]") {
  rapidjson::Document golden;
  golden.Parse(
      RealFileSystem()
          .read_text(testing::source_directory() + "/tests/golden/supervised/packing.json", 1 << 20)
          .c_str());
  REQUIRE_FALSE(golden.HasParseError());
  std::vector<int64_t> lengths;
  for (const auto& length : golden["lengths"].GetArray()) lengths.push_back(length.GetInt64());
  Bins wanted;
  for (const auto& bin : golden["bins"].GetArray()) {
    for (auto& to = wanted.emplace_back(); const auto& example : bin.GetArray()) {
      to.push_back(example.GetInt64());
    }
  }
  REQUIRE(lengths.size() == 200);
  CHECK(pack_best_fit(lengths, {.tokens = golden["seq_length"].GetInt64(), .window = 1000}) ==
        wanted);
}

TEST_CASE("each example is packed once, and no bin is too full", "[data]") {
  const Rng rng(7, "packing");
  for (uint64_t round = 0; round < 200; ++round) {
    const Rng draw = rng.derive(round);
    const int64_t room = 1 + static_cast<int64_t>(draw.bits(0) % 64);
    const int64_t window = 1 + static_cast<int64_t>(draw.bits(1) % 40);
    std::vector<int64_t> lengths(draw.bits(2) % 120);
    for (size_t i = 0; i < lengths.size(); ++i) {
      lengths[i] = 1 + static_cast<int64_t>(draw.bits(3 + i) % static_cast<uint64_t>(room));
    }
    CAPTURE(round, room, window, lengths);
    const Bins bins = pack_best_fit(lengths, {.tokens = room, .window = window});
    std::vector<int64_t> seen;
    for (const auto& bin : bins) {
      int64_t filled = 0;
      REQUIRE_FALSE(bin.empty());
      for (const int64_t example : bin) {
        filled += lengths[static_cast<size_t>(example)];
        seen.push_back(example);
        CHECK(example / window == bin.front() / window);  // of one window
      }
      CHECK(filled <= room);
    }
    // Two bins of a window that fit into one would have been one.
    std::ranges::sort(seen);
    std::vector<int64_t> all(lengths.size());
    std::iota(all.begin(), all.end(), int64_t{0});
    CHECK(seen == all);
  }
}

TEST_CASE("the best fit of equals is the oldest bin", "[data]") {
  const std::vector<int64_t> lengths{6, 7, 7, 3, 3, 4};
  CHECK(pack_best_fit(lengths, {.tokens = 10, .window = 6}) == Bins{{1, 3}, {2, 4}, {0, 5}});
  CHECK(pack_best_fit(lengths, {.tokens = 10, .window = 3}) == Bins{{1}, {2}, {0}, {5, 3, 4}});
  CHECK(pack_best_fit({}, {.tokens = 10, .window = 3}).empty());
}

TEST_CASE("log-normal lengths fill samples", "[data]") {
  const Rng rng(11, "lengths");
  std::vector<int64_t> lengths;
  for (uint64_t i = 0; i < 4000; ++i) {
    const double length = std::exp(5.0 + 0.8 * rng.normal(i));
    lengths.push_back(std::clamp<int64_t>(static_cast<int64_t>(length), 1, 2048));
  }
  const Bins bins = pack_best_fit(lengths, {.tokens = 2048, .window = 8192});
  const auto tokens = std::reduce(lengths.begin(), lengths.end());
  CHECK(static_cast<double>(tokens) / static_cast<double>(std::ssize(bins) * 2048) >= 0.97);
}

}  // namespace
}  // namespace ds
