// The communication log's figures.
#include "comm/traffic_figures.h"

#include <cmath>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("bandwidth follows the collective", "[comm]") {
  // 1 MB in 1 ms is 8 Gbit/s.
  CHECK(collective_bandwidth("broadcast", 1'000'000, 1, 4).algorithm == Approx(8));
  CHECK(collective_bandwidth("all_reduce", 1'000'000, 1, 4).algorithm == Approx(16));
  CHECK(collective_bandwidth("all_reduce", 1'000'000, 1, 4).bus == Approx(12));
  CHECK(collective_bandwidth("all_gather", 1'000'000, 1, 4).bus == Approx(24));
  CHECK(collective_bandwidth("all_to_all_single", 1'000'000, 1, 4).bus == Approx(6));
  CHECK(collective_bandwidth("reduce_scatter", 1'000'000, 1, 1).bus == 0);
  CHECK_THROWS_AS(collective_bandwidth("shout", 1, 1, 1), InternalError);
  CHECK_THROWS_AS(collective_bandwidth("send", 1, 0, 1), InternalError);
}

TEST_CASE("sizes read well", "[comm]") {
  CHECK(size_text(0) == "0B");
  CHECK(size_text(1023) == "1023.0 B");
  CHECK(size_text(1100) == "1.07 KB");
  CHECK(size_text(1 << 20) == "1.0 MB");
  CHECK(size_text(0x1p60) == "1.0 EB");
  CHECK(size_text(1.5 * 0x1p70) == "1.5 ZB");
  CHECK(size_text(0x1p80) == "1.0 YB");
  CHECK_THROWS_AS(size_text(-1), InternalError);
  CHECK(size_text(0x1p92) == "4096.0 YB");
}

TEST_CASE("a trimmed mean forgets outliers", "[comm]") {
  const std::vector<double> values = {1, 2, 3, 4, 5, 6, 7, 8, 9, 100};
  CHECK(trimmed_mean(values, 0.2) == Approx(5.5));
  CHECK(trimmed_mean({}, 0.1) == 0);
  CHECK(std::isnan(trimmed_mean(values, 0.5)));
  CHECK_THROWS_AS(trimmed_mean(values, -0.1), InternalError);
}

}  // namespace
}  // namespace ds
