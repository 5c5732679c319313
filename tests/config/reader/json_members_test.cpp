// The members of one JSON object, as they are handed on.
#include "config/reader/json_members.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

std::string shown(const std::string& text) {
  std::string out;
  for (const JsonMember& member : json_members(text, "a:1")) {
    out += member.name + "=" + member.json + (member.is_string ? "(" + member.text + ") " : " ");
  }
  return out;
}

std::string refusal_of(const std::string& text) {
  try {
    shown(text);
  } catch (const DataError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("members come in their order, with their values as JSON", "[config]") {
  CHECK(shown(R"({"b": 1, "a": "x", "c": null, "d": true})") == R"(b=1 a="x"(x) c=null d=true )");
  CHECK(shown(R"( {"l": [1, {"x": [ ]}, "y"], "o": {"p": {}, "q": [0]}, "z": 0} )") ==
        R"(l=[1,{"x":[]},"y"] o={"p":{},"q":[0]} z=0 )");
  CHECK(shown("{}").empty());
}

TEST_CASE("numbers are handed on to the last digit", "[config]") {
  CHECK(shown(R"({"n": 12345678901234567890123, "e": 1.50e+300, "z": -0.0, "l": [1.10]})") ==
        "n=12345678901234567890123 e=1.50e+300 z=-0.0 l=[1.10] ");
}

TEST_CASE("texts keep every character", "[config]") {
  CHECK(shown("{\"a\": \"\\u00e9\\n\\\"\\u0000\"}") ==
        std::string("a=\"\xC3\xA9\\n\\\"\\u0000\"(\xC3\xA9\n\"\0) ", 24));
  CHECK(shown(R"({"\u0061": ""})") == R"(a=""() )");
}

TEST_CASE("what is no JSON object is refused with its place", "[config]") {
  CHECK(refusal_of("[1]") == "a:1: no JSON object; each line must be one");
  CHECK(refusal_of("\"text\"") == "a:1: no JSON object; each line must be one");
  CHECK(refusal_of("7") == "a:1: no JSON object; each line must be one");
  CHECK(refusal_of(R"({"a": 1, "a": 2})") == "a:1: the field \"a\" comes twice; leave one out");
  CHECK(refusal_of(R"({"a": {"b": 1, "b": 2}})") == "taken");
  for (const char* const text : {"", "{", R"({"a": 1} {})", R"({"a": NaN})", R"({'a': 1})",
                                 "{\"a\": \"\xFF\"}", R"({"a": 01})", R"({"a": "\ud800"})"}) {
    CAPTURE(text);
    CHECK_THAT(refusal_of(text), Catch::StartsWith("a:1: not valid JSON at byte "));
  }
}

TEST_CASE("depth costs no stack", "[config]") {
  const std::string deep(200'000, '[');
  CHECK_THAT(refusal_of("{\"a\": " + deep), Catch::StartsWith("a:1: not valid JSON at byte "));
  const std::string whole = deep + std::string(200'000, ']');
  CHECK(json_members("{\"a\": " + whole + "}", "a:1").at(0).json == whole);
}
