// Number texts.
#include "core/number_text.h"

#include "core/error.h"
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
