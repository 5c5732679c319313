#include "core/values/index.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "core/status/error.h"

using namespace ds;

TEST_CASE("a number that fits is the same number in the other type", "[core]") {
  STATIC_REQUIRE(narrow<int>(size_t{7}) == 7);
  STATIC_REQUIRE(narrow<int8_t>(int64_t{-128}) == -128);
  STATIC_REQUIRE(to_size(3) == size_t{3});
  enum class Axis : uint8_t { kFirst, kSecond };
  STATIC_REQUIRE(to_size(Axis::kSecond) == size_t{1});
  CHECK(narrow<int64_t>(size_t{1} << 62) == int64_t{1} << 62);
}

TEST_CASE("a number that does not fit is refused by its value", "[core]") {
  CHECK_THROWS_WITH(to_size(-1), Catch::Contains("-1 does not fit"));
  CHECK_THROWS_WITH(narrow<int>(int64_t{1} << 31), Catch::Contains("2147483648 does not fit"));
  CHECK_THROWS_AS(narrow<int64_t>(std::numeric_limits<uint64_t>::max()), InternalError);
  CHECK_THROWS_AS(narrow<uint8_t>(256), InternalError);
  CHECK_THROWS_AS(narrow<int8_t>(-129), InternalError);
}

TEST_CASE("an element is read and written by a signed index, and none beyond the ends", "[core]") {
  std::vector<std::string> names{"a", "b"};
  nth(names, int64_t{1}) += "!";
  CHECK(names == std::vector<std::string>{"a", "b!"});
  const auto& same = names;
  CHECK(&nth(same, 0) == names.data());
  CHECK_THROWS_WITH(nth(names, 2), Catch::Contains("element 2 of 2"));
  CHECK_THROWS_AS(nth(names, -1), InternalError);
}
