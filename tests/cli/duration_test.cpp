#include "cli/duration.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("durations have units", "[cli]") {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  CHECK(parse_duration("90") == seconds(90));
  CHECK(parse_duration("90s") == seconds(90));
  CHECK(parse_duration("0.25") == milliseconds(250));
  CHECK(parse_duration("10m") == seconds(600));
  CHECK(parse_duration("2h") == seconds(7200));
  for (const char* text : {"", "s", "-1", "0", "10d", "1 0", "nan", "inf", "1e300h", "5mm"}) {
    CHECK_THROWS_AS(parse_duration(text), UsageError);
  }
}

}  // namespace ds
