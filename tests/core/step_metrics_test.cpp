#include "core/values/step_metrics.h"

#include <cmath>
#include <limits>
#include <set>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("metrics are found by name, and what nobody said has what its row says", "[core]") {
  Metrics metrics{{"loss", 2.5}, {"grad_norm", 1.0}};
  CHECK(metrics.find("loss") == 2.5);
  metrics.set("loss", 1.5);
  CHECK(metrics.said().size() == 2);
  CHECK(metrics.at("loss") == 1.5);
  CHECK(metrics.find("lr") == std::nullopt);  // not 0, which nobody said
  CHECK(!metrics.has("lr"));
  CHECK(metrics.has("grad_norm"));
  CHECK(metrics.find("validation_loss") == std::nullopt);
  CHECK(std::isnan(metrics.at("validation_loss")));
  CHECK(std::isnan(Metrics().at("loss")));
}

TEST_CASE("a metric that is in no row is a mistake", "[core]") {
  Metrics metrics;
  CHECK_THROWS_WITH(metrics.set("entropy", 1), Catch::Contains("\"entropy\" is not in the table"));
  CHECK_THROWS_AS(metrics.find("entropy"), Error);
  CHECK_THROWS_AS(metrics.has("entropy"), Error);
  CHECK(find_metric_row("entropy") == nullptr);
  CHECK(find_metric_row("loss") == &metric_table().front());
}

TEST_CASE("rows have names, gauges and places of their own", "[core]") {
  std::set<std::string_view> names, gauges;
  std::set<int> places;
  for (const MetricRow& row : metric_table()) {
    CAPTURE(row.name);
    CHECK(names.insert(row.name).second);
    CHECK(row.gauge.empty() == row.help.empty());
    CHECK(row.shown.empty() == (row.place == 0));
    if (!row.gauge.empty()) CHECK(gauges.insert(row.gauge).second);
    if (row.place > 0) CHECK(places.insert(row.place).second);
  }
}

TEST_CASE("numbers that count things are written whole, whatever they are", "[core]") {
  CHECK(whole_value(24) == 24);
  CHECK(whole_value(0x1p53) == int64_t{1} << 53);
  CHECK(whole_value(std::nan("")) == 0);
  CHECK(whole_value(1e300) == int64_t{1} << 62);
  CHECK(whole_value(-std::numeric_limits<double>::infinity()) == -(int64_t{1} << 62));
}

}  // namespace
}  // namespace ds
