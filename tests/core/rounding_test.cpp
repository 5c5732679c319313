// Multiples, also where the usual formula would overflow.
#include "core/memory/rounding.h"

#include <cstdint>

#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("numbers are rounded up to whole units", "[core]") {
  CHECK(round_up(int64_t{0}, 8) == 0);
  CHECK(round_up(int64_t{1}, 8) == 8);
  CHECK(round_up(int64_t{8}, 8) == 8);
  CHECK(round_up(size_t{9}, 8) == 16);
  CHECK(divide_up(int64_t{0}, 3) == 0);
  CHECK(divide_up(int64_t{6}, 3) == 2);
  CHECK(divide_up(int64_t{7}, 3) == 3);
  CHECK(divide_up(INT64_MAX, 2) == INT64_MAX / 2 + 1);
  CHECK(round_up(INT64_MAX, 1) == INT64_MAX);
}

}  // namespace
}  // namespace ds
