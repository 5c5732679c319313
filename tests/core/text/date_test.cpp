#include "core/text/date.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("a date is the beginning of its day", "[core]") {
  for (std::time_t day = -200'000; day < 200'000; day += 137) {
    const std::time_t seconds = day * 86'400;
    std::tm expected{};
    gmtime_r(&seconds, &expected);
    std::string text(32, '\0');
    text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%d", &expected));
    const std::optional<std::tm> got = parse_date(text);
    CAPTURE(text);
    REQUIRE(got);
    CHECK(got->tm_year == expected.tm_year);
    CHECK(got->tm_mon == expected.tm_mon);
    CHECK(got->tm_mday == expected.tm_mday);
    CHECK(got->tm_wday == expected.tm_wday);
    CHECK(got->tm_yday == expected.tm_yday);
    CHECK(got->tm_hour == 0);
  }
}

TEST_CASE("what is no date is none", "[core]") {
  for (const char* const text :
       {"", "today", "2026-11-31", "2026-02-29", "1900-02-29", "2026-13-01", "2026-00-01",
        "2026-01-00", "0000-01-01", "26-11-30", "2026-1-30", "2026/11/30", "2026-11-30 ",
        "+026-11-30", "2026-11-3x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_date(text));
  }
  CHECK(parse_date("2000-02-29"));
  CHECK(parse_date("9999-12-31"));
}

TEST_CASE("a time lies in a day that is a date", "[core]") {
  CHECK(parse_date(date_of(0)));
  CHECK(date_of(1'790'000'000).size() == 10);
}

}  // namespace
}  // namespace ds
