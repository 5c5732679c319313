#include "data/text/records.h"

#include <fmt/format.h>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Rows = std::vector<std::vector<std::string>>;

Rows rows_of(std::string_view content, RecordLayout layout, const std::vector<std::string>& names) {
  Rows rows;
  std::vector<RecordField> fields;
  for (const std::string& name : names) {
    fields.push_back({.name = name, .may_be_list = name == "list"});
  }
  for_each_record({.content = content, .path = "file", .layout = layout}, fields,
                  [&](std::span<const std::string> values, int64_t line) {
                    rows.emplace_back(values.begin(), values.end());
                    rows.back().push_back(std::to_string(line));
                  });
  return rows;
}

void check_refused(std::string_view content, RecordLayout layout, const std::string& why) {
  CAPTURE(content);
  CHECK_THROWS_WITH(rows_of(content, layout, {"label", "text"}), Catch::Contains(why));
}

TEST_CASE("records of JSON lines are read by their fields", "[data]") {
  CHECK(
      rows_of(
          "\xEF\xBB\xBF{\"text\": \"a\\tb\", \"label\": 2, \"more\": [1]}\n\n{\"label\": \"yes\", "
          "\"text\": \"\"}\r\n",
          RecordLayout::kJsonLines,
          {"label", "text"}) == Rows{{"2", "a\tb", "1"}, {"yes", "", "3"}});
}

TEST_CASE("a field that may be a list is a word, a number or the list's text", "[data]") {
  CHECK(rows_of("{\"list\": [1, \"a\", 0.5]}\n{\"list\": -2.5}\n{\"list\": 7}\n{\"list\": \"b\"}\n"
                "{\"list\": []}\n{\"list\": 18446744073709551615}\n",
                RecordLayout::kJsonLines, {"list"}) == Rows{{"[1,\"a\",0.5]", "1"},
                                                            {"-2.5", "2"},
                                                            {"7", "3"},
                                                            {"b", "4"},
                                                            {"[]", "5"},
                                                            {"1.8446744073709552e+19", "6"}});
  CHECK(rows_of("list\n\"[1, 2]\"\n0.5\n", RecordLayout::kCommas, {"list"}) ==
        Rows{{"[1, 2]", "2"}, {"0.5", "3"}});
  for (const char* const value : {"null", "true", "{}"}) {
    CAPTURE(value);
    CHECK_THROWS_WITH(
        rows_of(fmt::format("{{\"list\": {}}}", value), RecordLayout::kJsonLines, {"list"}),
        Catch::Contains("the field \"list\" is neither text nor a number nor a list"));
  }
}

TEST_CASE("cells of a table may be quoted", "[data]") {
  CHECK(rows_of("text,label\r\n\"one, \"\"two\"\"\nthree\",1\r\n\r\nfour,\"2\"\n,3",
                RecordLayout::kCommas, {"label", "text"}) ==
        Rows{{"1", "one, \"two\"\nthree", "2"}, {"2", "four", "5"}, {"3", "", "6"}});
}

TEST_CASE("cells between tabs are taken as they are", "[data]") {
  CHECK(rows_of("label\ttext\textra\n0\t\"a, b\t\n1\tc\td\n", RecordLayout::kTabs,
                {"label", "text"}) == Rows{{"0", "\"a, b", "2"}, {"1", "c", "3"}});
}

TEST_CASE("what is no record is refused with its line", "[data]") {
  const auto json = RecordLayout::kJsonLines, commas = RecordLayout::kCommas;
  check_refused("{\"text\": \"a\"}\n", json,
                "file:1: there is no field \"label\" (there are: text)");
  check_refused("{\"label\": true, \"text\": \"a\"}\n", json,
                "file:1: the field \"label\" is neither text nor a whole number");
  for (const char* const number : {"9223372036854775808", "-9223372036854775809", "1e30", "2.5"}) {
    check_refused(fmt::format("{{\"label\": {}, \"text\": \"a\"}}\n", number), json,
                  "file:1: the field \"label\" is a number, but no whole one of 64 bits");
  }
  check_refused("{\"label\": 1, \"text\": \"a\", \"label\": 2}\n", json,
                "file:1: the field \"label\" stands twice");
  check_refused("{\"label\": 1, \"text\": \"a\"}\n[1]\n", json,
                "file:2: the line is no JSON object");
  check_refused("{\"label\": 1\n", json, "file:1: not valid JSON");
  check_refused("\xfe\xfd\xff", json, "file: 3 bytes are no part of UTF-8");
  check_refused("text,labels\na,1\n", commas,
                "file:1: there is no column \"label\" (there are: text, labels)");
  check_refused("text,label,text\na,1,b\n", commas, "file:1: the column \"text\" stands twice");
  CHECK(rows_of("x,text,label,x\n1,a,0,2\n", commas, {"label", "text"}) == Rows{{"0", "a", "2"}});
  check_refused(std::string_view("text,label\na,1\nb\0c,1\n", 21), commas, "file:3: a NUL byte");
  check_refused(std::string_view("\xFF\xFEt\0e\0", 6), commas, "UTF-16 text; convert it: iconv");
  check_refused(std::string_view("t\0e\0x\0t\0,\0l\0a\0b\0e\0l\0", 20), commas,
                "UTF-16 text without a byte order mark; convert it: iconv -f UTF-16LE");
  check_refused("PK\x03\x04 of a workbook", commas, "a ZIP archive");
  check_refused("text,label\na\n", commas, "file:2: 1 cells, expected 2");
  check_refused("text,label\n\"a,1\n", commas, "file:2: a quoted cell has no end");
  check_refused("text,label\n\"a\"b,1\n", commas,
                "file:2: a quoted cell has text behind its closing quote");
  CHECK_THROWS_AS(record_layout("data.txt"), Unsupported);
  CHECK(record_layout("a/train.tsv.gz") == RecordLayout::kTabs);
}

}  // namespace
}  // namespace ds
