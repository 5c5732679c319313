// Documents as trees: lookup and change, equality, what messages show of a value, and that a tree
// that is written as JSON reads back as it was, for generated trees and for all kinds of numbers.
#include "config/reader/value.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "config/reader/json_reader.h"
#include "core/text/utf8.h"
#include "tests/support/catch.h"

namespace ds {

namespace {

Value parsed(std::string_view text) { return read_config_value(text, {}); }

// Trees of every kind of value, with names and texts that need care when they are written.
class TreeMaker {
 public:
  explicit TreeMaker(uint32_t seed) : random_(seed) {}

  Value tree(int depth) {
    switch (pick(depth > 0 ? 8 : 6)) {
      case 0:
        return Value::null();
      case 1:
        return Value::boolean(pick(2) == 1);
      case 2:
        return Value::integer(static_cast<int64_t>(random_()));
      case 3:
        return Value::number(static_cast<double>(pick(2000)) / 64 - 10);
      case 4:
      case 5:
        return Value::string(text());
      case 6: {
        Value list = Value::list();
        for (size_t i = pick(4); i > 0; --i) list.items().push_back(tree(depth - 1));
        return list;
      }
      default:
        return object(depth);
    }
  }

  Value object(int depth) {
    Value object = Value::object();
    for (size_t i = pick(5); i > 0; --i) object.set(text(), tree(depth - 1));
    return object;
  }

 private:
  size_t pick(size_t count) { return random_() % count; }
  std::string text() {
    static const std::vector<std::string> kParts = {"a",
                                                    "B",
                                                    "_",
                                                    " ",
                                                    "\"",
                                                    "'",
                                                    "\\",
                                                    "\n",
                                                    "\t",
                                                    "\r",
                                                    "\x01",
                                                    "\x1f",
                                                    "#",
                                                    "//",
                                                    "{",
                                                    "]",
                                                    ",",
                                                    ":",
                                                    "\xC3\xA9",
                                                    "\xE2\x82\xAC",
                                                    "\xF0\x9F\x98\x80",
                                                    "true",
                                                    "0",
                                                    "'''",
                                                    "/*"};
    std::string out;
    for (size_t i = pick(6); i > 0; --i) out += kParts[pick(kParts.size())];
    return out;
  }

  std::mt19937_64 random_;
};

}  // namespace

TEST_CASE("an origin is told by what is known of it", "[config]") {
  const auto source = std::make_shared<const std::string>("train.json");
  CHECK(Origin{}.text() == "default");
  CHECK(Origin{source, 0, 0}.text() == "train.json");
  CHECK(Origin{source, 3, 14}.text() == "train.json:3:14");
  CHECK(Origin{nullptr, 3, 14}.text() == "default");
}

TEST_CASE("setting replaces in place, keeps the order and the key's own origin", "[config]") {
  const auto file = std::make_shared<const std::string>("f");
  Value object = read_config_document("{\"a\": 1, \"b\": 2}", "f");
  object.set("a", Value::string("new", {file, 9, 9}));
  object.set("c", Value::integer(3, {file, 7, 2}));
  CHECK(to_compact_json(object) == R"({"a":"new","b":2,"c":3})");
  CHECK(object.find_member("a")->origin.text() == "f:1:2");
  CHECK(object.find("a")->origin().text() == "f:9:9");
  CHECK(object.find_member("c")->origin.text() == "f:7:2");
}

TEST_CASE("what set returns is the stored value", "[config]") {
  Value object = Value::object();
  object.set("inner", Value::object()).set("leaf", Value::integer(1));
  object.set("inner", Value::list()).items().push_back(Value::null());
  CHECK(to_compact_json(object) == R"({"inner":[null]})");
}

TEST_CASE("erasing tells whether there was something", "[config]") {
  Value object = parsed(R"({"a": 1, "b": 2, "c": 3})");
  CHECK(object.erase("b"));
  CHECK_FALSE(object.erase("b"));
  CHECK_FALSE(object.erase(""));
  CHECK(to_compact_json(object) == R"({"a":1,"c":3})");
  CHECK(object.find("b") == nullptr);
}

TEST_CASE("nothing is found in values that are no objects", "[config]") {
  for (const char* text : {"null", "true", "3", "2.5", "\"a\"", "[\"a\"]"}) {
    CAPTURE(text);
    Value value = parsed(text);
    CHECK(value.find("a") == nullptr);
    CHECK(value.find_member("a") == nullptr);
    CHECK_FALSE(value.erase("a"));
  }
}

TEST_CASE("a copy is a value of its own", "[config]") {
  const Value original = parsed(R"({"a": {"b": [1]}})");
  Value copy = original;
  copy.find("a")->find("b")->items().push_back(Value::integer(2));
  CHECK(to_compact_json(original) == R"({"a":{"b":[1]}})");
  CHECK(to_compact_json(copy) == R"({"a":{"b":[1,2]}})");
  CHECK_FALSE(same_content(original, copy));
}

TEST_CASE("an integer can be asked for as a number", "[config]") {
  CHECK(parsed("3").as_number() == 3.0);
  CHECK(parsed("3.5").as_number() == 3.5);
  CHECK(parsed("-9223372036854775808").as_integer() == std::numeric_limits<int64_t>::min());
  CHECK(parsed("true").as_boolean());
  CHECK_FALSE(parsed("false").as_boolean());
}

TEST_CASE("kinds are named with their article", "[config]") {
  const std::vector<std::pair<const char*, std::string_view>> cases = {
      {"null", "null"},      {"true", "a boolean"}, {"7", "an integer"},        {"7.0", "a number"},
      {"seven", "a string"}, {"[7]", "a list"},     {"{\"a\": 7}", "an object"}};
  for (const auto& [text, name] : cases) {
    CAPTURE(text);
    CHECK(parsed(text).kind_name() == name);
  }
}

TEST_CASE("contents are equal whatever the order of members and the origins", "[config]") {
  const auto same = [](const char* a, const char* b) {
    const bool there = same_content(parsed(a), read_config_value(b, {}));
    CHECK(there == same_content(read_config_value(b, {}), parsed(a)));
    return there;
  };
  CHECK(same(R"({"a": 1, "b": [2]})", R"({"b": [2], "a": 1})"));
  CHECK(same("{}", "{}"));
  CHECK(same("null", "null"));
  CHECK_FALSE(same(R"({"a": 1})", R"({"a": 1, "b": 2})"));
  CHECK_FALSE(same(R"({"a": 1})", R"({"b": 1})"));
  CHECK_FALSE(same("[1, 2]", "[2, 1]"));
  CHECK_FALSE(same("[1]", "[1, 1]"));
  CHECK_FALSE(same("1", "1.0"));
  CHECK_FALSE(same("1", "true"));
  CHECK_FALSE(same("null", "false"));
  CHECK_FALSE(same("\"1\"", "1"));
  CHECK_FALSE(same("0.5", "0.25"));
}

TEST_CASE("an excerpt is short and never cuts a character in two", "[config]") {
  CHECK(parsed(R"({"a": [1, "x"]})").excerpt() == R"({"a":[1,"x"]})");
  CHECK(Value::string(std::string(58, 'x')).excerpt() == "\"" + std::string(58, 'x') + "\"");
  CHECK(Value::string(std::string(59, 'x')).excerpt() == "\"" + std::string(59, 'x') + "...");
  for (size_t before = 40; before < 62; ++before) {
    for (const char* character : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
      std::string text(before, 'x');
      while (text.size() < 100) text += character;
      std::string shown = Value::string(text).excerpt();
      CAPTURE(before, character);
      REQUIRE(shown.ends_with("..."));
      shown.resize(shown.size() - 3);
      CHECK(shown.size() <= 60);
      CHECK(shown.size() > 56);
      CHECK(first_invalid_utf8(shown) == std::string_view::npos);
      CHECK(shown == ("\"" + text).substr(0, shown.size()));
    }
  }
}

TEST_CASE("the indented form is what a person would write", "[config]") {
  CHECK(to_json(parsed(R"({"a": {"b": [1, 2, {"c": true}], "d": {}}, "e": []})")) ==
        "{\n"
        "  \"a\": {\n"
        "    \"b\": [1, 2, {\n"
        "      \"c\": true\n"
        "    }],\n"
        "    \"d\": {}\n"
        "  },\n"
        "  \"e\": []\n"
        "}\n");
  CHECK(to_json(Value::null()) == "null\n");
}

TEST_CASE("texts are written with the escapes that JSON asks for", "[config]") {
  CHECK(to_compact_json(Value::string("a\"b\\c\nd\re\tf/g")) == R"("a\"b\\c\nd\re\tf/g")");
  for (char c = 0; c < 0x20; ++c) {
    const std::string written = to_compact_json(Value::string(std::string(1, c)));
    CAPTURE(static_cast<int>(c), written);
    CHECK(written.find_first_not_of("\"\\nrtu0123456789abcdef") == std::string::npos);
    CHECK(read_config_value(written, {}).as_string() == std::string(1, c));
  }
  CHECK(to_compact_json(Value::string("\x7f\xC3\xA9")) == "\"\x7f\xC3\xA9\"");
}

TEST_CASE("numbers are written as briefly as they read back to the same bits", "[config]") {
  const std::vector<std::pair<double, std::string_view>> cases = {
      {1.0, "1.0"},       {-0.0, "-0.0"},
      {0.1, "0.1"},       {3e-4, "3e-04"},
      {0.125, "0.125"},   {1e22, "1e+22"},
      {5e-324, "5e-324"}, {1.7976931348623157e308, "1.7976931348623157e+308"}};
  for (const auto& [number, text] : cases) {
    CHECK(to_compact_json(Value::number(number)) == text);
  }
  std::mt19937_64 random(11);
  for (int i = 0; i < 20'000; ++i) {
    const double number = std::bit_cast<double>(random());
    if (!std::isfinite(number)) continue;
    const std::string written = to_compact_json(Value::number(number));
    const Value back = read_config_value(written, {});
    if (back.kind() != Value::Kind::kNumber ||
        std::bit_cast<uint64_t>(back.as_number()) != std::bit_cast<uint64_t>(number)) {
      FAIL(written << " reads back differently");
    }
  }
}

TEST_CASE("integers are written so that they stay integers", "[config]") {
  for (const int64_t number : {int64_t{0}, int64_t{-1}, std::numeric_limits<int64_t>::max(),
                               std::numeric_limits<int64_t>::min(), (int64_t{1} << 53) + 1}) {
    const Value back = read_config_value(to_compact_json(Value::integer(number)), {});
    CHECK(back.kind() == Value::Kind::kInteger);
    CHECK(back.as_integer() == number);
  }
}

TEST_CASE("generated trees read back as they were written, in both layouts", "[config]") {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    const Value tree = TreeMaker(seed).object(4);
    CAPTURE(seed, to_json(tree));
    const Value indented = read_config_document(to_json(tree), "t");
    const Value compact = read_config_document(to_compact_json(tree), "t");
    REQUIRE(same_content(tree, indented));
    REQUIRE(same_content(tree, compact));
    // Equality overlooks the order of members, the text does not.
    REQUIRE(to_json(indented) == to_json(tree));
  }
}

}  // namespace ds
