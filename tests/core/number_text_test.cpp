// Number texts.
#include "core/values/number_text.h"

#include <cmath>
#include <cstdlib>
#include <limits>

#include "core/status/error.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("numbers get the largest unit that fits", "[core]") {
  CHECK(number_text(866076672, std::nullopt, 4) == "866.077 M");
  CHECK(number_text(1000) == "1 K");
  CHECK(number_text(999.999) == "1000 ");
  CHECK(number_text(0) == "0 ");
  CHECK(number_text(0.5) == "500 m");
  CHECK(number_text(1.5e-6) == "1.5 u");
  CHECK(number_text(3.2e15) == "3200 T");
}

TEST_CASE("a given unit is kept and halves round to even", "[core]") {
  CHECK(number_text(12.3456, "T") == "0 T");
  CHECK(number_text(2.5, "", 0) == "2 ");
  CHECK(number_text(3.5, "", 0) == "4 ");
  CHECK(number_text(1e12, "", 3) == "1e+12 ");
  CHECK(quantity_text(1e6, "B", "G", 0) == "0 GB");
  CHECK(quantity_text(0.25, "s", "m") == "250 ms");
  CHECK_THROWS_AS(number_text(1, "", -1), InternalError);
}

TEST_CASE("parameter counts say B for billions", "[core]") {
  CHECK(parameter_count_text(426516480, "G", 4) == "0.4265 B");
  CHECK(parameter_count_text(426516480, "B", 4) == "0.4265 B");
  CHECK(parameter_count_text(7e9) == "7 B");
  CHECK(parameter_count_text(999999, "", 0) == "999999");
}

TEST_CASE("sizes are told in the largest power of 1024 that keeps them at 1 or above", "[core]") {
  struct Case {
    double bytes;
    double value;
    std::string_view unit;
  };
  const Case cases[] = {{0, 0, "B"},
                        {1023, 1023, "B"},
                        {1024, 1, "KiB"},
                        {1536, 1.5, "KiB"},
                        {0x1p20 - 1024, 1023, "KiB"},
                        {0x1p20, 1, "MiB"},
                        {0x1p30, 1, "GiB"},
                        {0x1p40, 1, "TiB"},
                        {0x1p52, 4096, "TiB"},  // there is no larger unit
                        {-5000, -5000, "B"}};
  for (const Case& one : cases) {
    CAPTURE(one.bytes);
    const ScaledBytes scaled = scale_bytes(one.bytes);
    CHECK(scaled.value == one.value);
    CHECK(scaled.unit == one.unit);
  }
}

TEST_CASE("numbers that no unit fits are told in the smallest, and what is no number as it is",
          "[core]") {
  CHECK(number_text(1e-9, std::nullopt, 4) == "0.001 u");
  CHECK(number_text(-2000) == "-2e+09 u");
  CHECK(number_text(-2000, "K") == "-2 K");
  CHECK(number_text(5000, "x") == "5000 x");  // a unit of no magnitude
  CHECK(number_text(std::numeric_limits<double>::infinity(), "") == "inf ");
  CHECK(number_text(std::nan(""), "") == "nan ");
  CHECK(number_text(0.125, "", 2) == "0.12 ");  // an exact half goes to the even digit
  CHECK(number_text(0.375, "", 2) == "0.38 ");
  CHECK_THROWS_WITH(number_text(1, "", 301), Catch::Contains("301 decimals"));
}

TEST_CASE("a text of a number is within half of its last digit", "[core]") {
  const Rng rng(3, "numbers");
  for (uint64_t i = 0; i < 500; ++i) {
    const double value = std::pow(10.0, 14 * static_cast<double>(rng.uniform(i)) - 2);
    const std::string text = number_text(value, std::nullopt, 3);
    char* end = nullptr;
    const double told = std::strtod(text.c_str(), &end);
    const std::string_view unit(end + 1);
    const double magnitude = unit == "T"   ? 1e12
                             : unit == "G" ? 1e9
                             : unit == "M" ? 1e6
                             : unit == "K" ? 1e3
                             : unit == "m" ? 1e-3
                                           : 1;
    CAPTURE(value, text);
    REQUIRE(std::abs(told - value / magnitude) <= 0.00051);
    REQUIRE((told >= 1 || unit == "m"));
  }
}

TEST_CASE("sizes are read as people write them, and nothing else is one", "[core]") {
  CHECK(parse_bytes("4GiB") == int64_t{4} << 30);
  CHECK(parse_bytes("1.5 TiB") == int64_t{3} << 39);
  CHECK(parse_bytes("200 MB") == 200'000'000);
  CHECK(parse_bytes("64kB") == 64'000);
  CHECK(parse_bytes("4096") == 4096);
  CHECK(parse_bytes("0") == 0);
  for (const char* text :
       {"", "GiB", "-1", "4 gigabytes", "1e9", "nan", "inf", "5000000 TiB", "4GiB "}) {
    CAPTURE(text);
    CHECK_FALSE(parse_bytes(text));
  }
}
