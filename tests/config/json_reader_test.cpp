#include "config/reader/json_reader.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/config_texts.h"

namespace ds {

using test::config_error_of;
using test::json_of;

TEST_CASE("JSON and Hjson spellings give the same document", "[config]") {
  const std::string expected = R"({"a":1,"b":"two words","c":[1,2.5,true],"d":{"e":null}})";
  CHECK(json_of(R"({"a": 1, "b": "two words", "c": [1, 2.5, true], "d": {"e": null}})") ==
        expected);
  CHECK(json_of("a: 1\nb: two words\nc: [1, 2.5, true]\nd: {e: null}\n") == expected);
  CHECK(json_of("{ # comment\n a: 1 // one\n 'b': 'two words', /* x */ c: [1,2.5,true,], d: {e: "
                "null,},}") == expected);
  CHECK(json_of("\xEF\xBB\xBF{a: 1\n b: two words\n c: [\n1\n2.5\ntrue\n]\nd: {e: null}}") ==
        expected);
}

TEST_CASE("numbers keep integers exact and words stay strings", "[config]") {
  CHECK(json_of("{a: 9223372036854775807, b: -0, c: 1e3, d: 1e-400}") ==
        R"({"a":9223372036854775807,"b":0,"c":1000.0,"d":0.0})");
  CHECK(json_of("{a: 01\n b: +5\n c: NaN\n d: 0x10\n e: 1.\n}") ==
        R"({"a":"01","b":"+5","c":"NaN","d":"0x10","e":"1."})");
  CHECK(json_of("{a: 18446744073709551616}") == R"({"a":18446744073709551616.0})");
}

TEST_CASE("a block string loses its indentation", "[config]") {
  CHECK(json_of("{\n  a:\n    '''\n    one\n      two\n    '''\n}") == R"({"a":"one\n  two"})");
  CHECK(json_of("{a: '''     one\n     two'''}") == R"({"a":"one\n two"})");
}

TEST_CASE("escapes become UTF-8", "[config]") {
  CHECK(json_of(R"({"a": "\u00e9\ud83d\ude00\n\/"})") ==
        "{\"a\":\"\xC3\xA9\xF0\x9F\x98\x80\\n/\"}");
}

TEST_CASE("malformed documents are refused where they break", "[config]") {
  CHECK(config_error_of("") == "t:1:1: the text is empty, expected an object");
  CHECK_THAT(config_error_of("[1]"),
             Catch::StartsWith("t:1:1: the document is a list, expected an object; ") &&
                 Catch::Contains("jq -c '.[]' FILE > FILE.jsonl, then data.train=FILE.jsonl"));
  CHECK(config_error_of("{\"a\": 1,\n \"a\": 2}") ==
        "t:2:2: duplicate key \"a\", first given at t:1:2");
  CHECK(config_error_of("{\"a\": 1e400}") ==
        "t:1:7: the number 1e400 is beyond the range of a double");
  CHECK(config_error_of("{\"a\": \"\x01\"}") ==
        "t:1:8: control character 0x01 in a string, write it as an escape");
  CHECK(config_error_of("{\"a\": \"\xFF\"}") == "t:1:8: byte 0xff is not valid UTF-8");
  CHECK(config_error_of("{\"a\": \"b\n\"}") == "t:1:9: the string is not closed on its line");
  CHECK(config_error_of("{\"a\": 1} x") == "t:1:10: text follows after the end of the document");
  CHECK(config_error_of("{\"a\": 1") == "t:1:8: the object opened at t:1:1 has no closing }");
  CHECK(config_error_of("{\"a\" 1}") == "t:1:6: expected ':' after the key \"a\"");
  CHECK(config_error_of("{\"a\": ,}") ==
        "t:1:7: expected a value, got ','; put strings that begin so in quotes");
  CHECK(config_error_of("{/* }") == "t:1:2: the comment /* has no closing */");
  CHECK(config_error_of("{\"a\": \"\\ud800\"}") ==
        "t:1:8: \\u escape: a lone surrogate is no character");
  CHECK(
      config_error_of("{\"a\": " + std::string(100'000, '[') + "}").find("nested deeper than 64") !=
      std::string::npos);
}

TEST_CASE("base64 in either alphabet decodes", "[config]") {
  CHECK(decode_base64("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0=") == "{\"train_batch_size\": 8}");
  CHECK(decode_base64("__-_") == decode_base64("//+/"));
  CHECK_THROWS_WITH(decode_base64("ab*d"), Catch::Contains("character 3"));
  CHECK_THROWS_WITH(decode_base64("eyJ0"
                                  "cm"),
                    Catch::Contains("cut off"));
}

TEST_CASE("numbers that JSON does not have end as numbers do", "[config]") {
  CHECK(json_of("{\"a\": Infinity, \"b\": [-Infinity, NaN], \"c\": Infinity}") ==
        R"({"a":"Infinity","b":["-Infinity","NaN"],"c":"Infinity"})");
  CHECK(json_of("{a: NaNcy, b\n}") == R"({"a":"NaNcy, b"})");
}

}  // namespace ds
