// JSON of others that is handed on: where values begin and end, and texts as strings.
#include "config/reader/json_values.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

std::string shown(std::string_view text) {
  std::string out;
  for (const JsonValueText& value : json_values(text, "f")) {
    out += fmt::format("{}={};", value.line, value.text);
  }
  return out;
}

}  // namespace

TEST_CASE("values follow each other with the lines that they begin in", "[config]") {
  CHECK(shown("").empty());
  CHECK(shown(" \r\n\t").empty());
  CHECK(shown("[1,\n2]\n {\"a\":\"\\n]\"} \"x\"\n\n3\n") ==
        "1=[1,\n2];3={\"a\":\"\\n]\"};3=\"x\";5=3;");
  CHECK(shown("12345678901234567890123 1e99") == "1=12345678901234567890123;1=1e99;");
  const std::string deep(100'000, '[');
  CHECK(shown(deep + std::string(deep.size(), ']')).size() == 2 * deep.size() + 3);
}

TEST_CASE("what is no JSON is refused with its line", "[config]") {
  for (const auto& [text, line] : {std::pair{"[1]\n[2", 2},
                                   {"x", 1},
                                   {"\n\n{\"a\" 1}", 3},
                                   {"[\"\xff\"]", 1},
                                   {"[1]\n]", 2}}) {
    CAPTURE(text);
    CHECK_THROWS_WITH(json_values(text, "f"),
                      Catch::StartsWith(fmt::format("f:{}: not valid JSON: ", line)));
  }
}

TEST_CASE("texts are quoted, and have to be UTF-8", "[config]") {
  CHECK(json_quoted("a\"\\\n\x01\u00fc") == "\"a\\\"\\\\\\n\\u0001\u00fc\"");
  CHECK_THROWS_AS(json_quoted("\xc3"), DataError);
}
