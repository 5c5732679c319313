// How the JSON of a file is laid out: lines, a list, an object over several lines, or none of
// these.
#include "data/text/json_shape.h"

#include <fmt/format.h>

#include "data/text/text_kind.h"
#include "tests/support/catch.h"

using namespace ds;
using Kind = JsonShape::Kind;

TEST_CASE("lines of objects are JSON lines, as many as were looked at", "[data]") {
  CHECK(json_shape("{\"a\": 1}\n\n \r\n{\"b\": NaN}\r\n").lines == 2);
  CHECK(json_shape("{\"a\": 1}").kind == Kind::kLines);
  CHECK(json_shape("{}\n{}").kind == Kind::kLines);
  CHECK(json_shape("\xEF\xBB\xBF{\"a\": 1}\n").kind == Kind::kLines);
  std::string many;
  for (int i = 0; i < 1000; ++i) many += "{\"a\": 1}\n";
  CHECK(json_shape(many).lines == 64);
  CHECK(json_shape(many + "no JSON").kind == Kind::kLines);  // beyond what is looked at
}

TEST_CASE("one line that is no object is enough against JSON lines", "[data]") {
  for (const char* text :
       {"", " \n", "text", "{\"a\": 1}\ntext\n", "{\"a\": 1}\n[1]\n", "{\"a\": 1} {\"b\": 2}\n",
        "{hello}", "{\"a\"", "{\"a\": x}", "[1] as Smith says\n", "[1, 2]", "[Music]",
        "[\"a\", \"b\"]", "\"a\"", "1", "{\"a\": 1,\n\"b\": x}\n", "[{\"a\": 1}, and so on"}) {
    CAPTURE(text);
    CHECK(json_shape(text).kind == Kind::kNone);
  }
}

TEST_CASE("a list of objects is one however it is indented", "[data]") {
  CHECK(json_shape("[{\"a\": 1}, {\"a\": 2}]").kind == Kind::kList);
  CHECK(json_shape("[\n  {\n    \"a\": 1\n  },\n  {\"a\": 2}\n]\n").kind == Kind::kList);
  CHECK(json_shape("\xEF\xBB\xBF \n[\n{\"a\": [1]}]").kind == Kind::kList);
  CHECK(json_shape("[1, {\"a\": 1}]").kind == Kind::kList);
  CHECK_THAT(advice_for_json({.kind = Kind::kList}), Catch::Contains("jq -c '.[]'"));
}

TEST_CASE("an object over several lines is one, with its first list of objects", "[data]") {
  const JsonShape squad = json_shape(
      "{\"version\": \"2.0\",\n \"tags\": [\"x\"], \"of\": {\"data\": [{}]},\n"
      " \"data\": [{\"paragraphs\": [{\"context\": \"c\"}]}], \"other\": [{}]}");
  CHECK(squad.kind == Kind::kObject);
  CHECK(squad.list == "data");
  CHECK_THAT(advice_for_json(squad), Catch::Contains("jq -c '.data[]'"));
  const JsonShape plain = json_shape("{\n  \"a\": 1\n}\n");
  CHECK(plain.kind == Kind::kObject);
  CHECK(plain.list.empty());
  CHECK_THAT(advice_for_json(plain), Catch::Contains("jq -c . FILE"));
  const JsonShape odd = json_shape("{\"it's\":\n[{\"a\": 1}]}");
  CHECK(odd.list == "it's");
  CHECK_THAT(advice_for_json(odd), !Catch::Contains("it's"));  // no quotes into a shell's
  CHECK(json_shape("{\"data\": [1, {\"a\": 1}],\n\"b\": 1}").list == "data");
}

TEST_CASE("of one line the list is told, of many lines it is a detail", "[data]") {
  CHECK(json_shape("{\"data\": [{\"a\": 1}]}\n").list == "data");
  CHECK(json_shape("{\"data\": [{\"a\": 1}]}\n{\"data\": []}\n").list.empty());
  CHECK(advice_for_json(json_shape("{\"a\": 1}\n")).empty());
  CHECK(advice_for_json({}).empty());
}

TEST_CASE("the cut at the end of what is looked at spoils nothing", "[data]") {
  const auto cut_at = [](std::string text, size_t end) {
    text.insert(0, kHeadBytes - end, ' ');  // blanks are no part of it
    return json_shape(std::string_view(text).substr(0, kHeadBytes)).kind;
  };
  const std::string list =
      "[\n {\"a\": \"b\\ud83d\\ude00 \xF0\x9F\x98\x80\", \"c\": -1.5e3, \"d\": false, \"e\": "
      "null},\n"
      " {\"a\": []}\n]";
  const std::string object = "{\"k\": 1,\n" + list.substr(4);
  for (size_t end = 10; end < list.size(); ++end) {
    CAPTURE(end);
    CHECK(cut_at(list, end) == Kind::kList);
  }
  for (size_t end = 12; end < 50; ++end) CHECK(cut_at(object, end) == Kind::kObject);
  CHECK(cut_at("[\n{\"a\": 1}, text that is no JSON and goes on for a while", 50) == Kind::kNone);
}

TEST_CASE("an outline is as deep as it likes, and no deeper than the text", "[data]") {
  const std::string deep(30'000, '[');
  CHECK(json_shape("{\"a\": " + deep + std::string(30'000, ']') + "}").kind == Kind::kLines);
  CHECK(json_shape(deep + deep + deep).kind == Kind::kNone);
}
