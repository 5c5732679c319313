// These tests are of where the reader says that things stand. Documents are generated together with
// the place of every key and value, in all spellings that the reader takes; what it says is
// compared with that. Then come the rules of quoteless and block strings one by one, and the
// limits.
#include <fmt/format.h>

#include <random>

#include "config/reader/json_reader.h"
#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/config_texts.h"

namespace ds {

using test::config_error_of;
using test::json_of;

namespace {

// Writes random documents in random spellings and notes the place of all that it writes.
class DocumentWriter {
 public:
  explicit DocumentWriter(uint32_t seed) : random_(seed) {}

  // One "key place value-place" for each member, in order of appearance.
  std::vector<std::string> places;
  size_t start = 0;  // of the outer braces
  size_t end = 0;
  const std::string& text() const { return text_; }

  void document() {
    blanks();
    start = text_.size();
    put("{");
    members(3);
    put("}");
    end = text_.size();
    blanks();
  }

 private:
  uint32_t pick(uint32_t count) { return static_cast<uint32_t>(random_() % count); }

  void put(std::string_view text) {
    for (const char c : text) {
      text_ += c;
      if (c == '\n') {
        ++line_;
        column_ = 1;
      } else {
        ++column_;
      }
    }
  }
  std::string place() const { return fmt::format("{}:{}", line_, column_); }

  void blanks() {
    static const std::vector<std::string> kBlanks = {
        "", " ", "\n", "\t", "\r\n", "/* a, \n b: } */", "# to the end } \n", "// too: [\n", "  "};
    for (uint32_t i = pick(3); i > 0; --i) put(kBlanks[pick(9)]);
  }

  void members(int depth) {
    const uint32_t count = pick(5);
    for (uint32_t i = 0; i < count; ++i) {
      blanks();
      const size_t row = places.size();
      places.push_back(fmt::format("k{} {}", row, place()));
      key(fmt::format("k{}", row));
      put(":");
      blanks();
      places[row] += " " + place();
      value(depth);
      blanks();
      if (i + 1 < count || pick(2) == 0) put(",");
    }
    blanks();
  }

  void key(const std::string& name) {
    switch (pick(3)) {
      case 0:
        return put("\"" + name + "\"");
      case 1:
        return put("'" + name + "'");
      default:
        return put(name);
    }
  }

  void value(int depth) {
    switch (pick(depth > 0 ? 6 : 4)) {
      case 0:
        return put(pick(2) == 0 ? "-12.5e1" : "7");
      case 1:
        return put(pick(2) == 0 ? "null" : "true");
      case 2:
        return put("\"two \\n words }\"");
      case 3:
        return put("'single \\u00e9 // quotes'");
      case 4:
        put("{");
        members(depth - 1);
        return put("}");
      default:
        put("[");
        for (uint32_t i = pick(3); i > 0; --i) {
          blanks();
          value(depth - 1);
          blanks();
          put(",");
        }
        return put("]");
    }
  }

  std::mt19937 random_;
  std::string text_;
  int line_ = 1;
  int column_ = 1;
};

void collect_places(const Value& value, std::vector<std::string>& out) {
  for (const Value& item : value.items()) collect_places(item, out);
  for (const Member& member : value.members()) {
    out.push_back(fmt::format("{} {}:{} {}:{}", member.key, member.origin.line,
                              member.origin.column, member.value.origin().line,
                              member.value.origin().column));
    collect_places(member.value, out);
  }
}

}  // namespace

TEST_CASE("keys and values know where they were written, in every spelling", "[config]") {
  size_t checked = 0;
  for (uint32_t seed = 0; seed < 500; ++seed) {
    DocumentWriter writer(seed);
    writer.document();
    CAPTURE(seed, writer.text());
    std::vector<std::string> found;
    collect_places(read_config_document(writer.text(), "t"), found);
    REQUIRE(found == writer.places);
    checked += found.size();
  }
  CHECK(checked > 1000);
}

TEST_CASE("a document that ends too early says so, wherever it is cut", "[config]") {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    DocumentWriter writer(seed);
    writer.document();
    const std::string& text = writer.text();
    for (size_t length = writer.start + 1; length < writer.end; ++length) {
      CAPTURE(seed, length, text);
      REQUIRE_THAT(config_error_of(std::string_view(text).substr(0, length)),
                   Catch::StartsWith("t:"));
    }
  }
}

TEST_CASE("elements of lists know where they were written", "[config]") {
  const Value root = read_config_document("a: [1,\n  'x' ,\n\t[ {b: 2} ]\n]", "t");
  const Value& list = *root.find("a");
  CHECK(list.origin().text() == "t:1:4");
  CHECK(list.items()[0].origin().text() == "t:1:5");
  CHECK(list.items()[1].origin().text() == "t:2:3");
  CHECK(list.items()[2].origin().text() == "t:3:2");
  CHECK(list.items()[2].items()[0].origin().text() == "t:3:4");
  CHECK(list.items()[2].items()[0].find("b")->origin().text() == "t:3:8");
}

TEST_CASE("a byte order mark is skipped and takes columns of the first line only", "[config]") {
  const Value root = read_config_document("\xEF\xBB\xBF{\n\"a\": 1}", "t");
  CHECK(root.find("a")->origin().text() == "t:2:6");
  CHECK(json_of("\xEF\xBB\xBF"
                "a: 1") == R"({"a":1})");
  CHECK_THAT(config_error_of("\xEF\xBB\xBF"), Catch::Contains("the text is empty"));
}

TEST_CASE("a number or a literal ends where a sign of JSON or a comment follows", "[config]") {
  CHECK(json_of("{a: 1, b: 2}") == R"({"a":1,"b":2})");
  CHECK(json_of("{a: [true]}") == R"({"a":[true]})");
  CHECK(json_of("a: 1 # note") == R"({"a":1})");
  CHECK(json_of("a: null // note\nb: 2/* note */") == R"({"a":null,"b":2})");
  CHECK(json_of("{a: false}") == R"({"a":false})");
  CHECK(json_of("a: 1 \t\r\nb: 2") == R"({"a":1,"b":2})");
}

TEST_CASE("a text without quotes goes to the end of its line, signs and comments included",
          "[config]") {
  CHECK(json_of("a: one, two # three\nb: 1") == R"({"a":"one, two # three","b":1})");
  CHECK(json_of("a: 1 2, 3\n") == R"({"a":"1 2, 3"})");
  CHECK(json_of("a: truely, 1\n") == R"({"a":"truely, 1"})");
  CHECK(json_of("a: true, 1: 5\n") == R"({"a":true,"1":5})");
  CHECK(json_of("a: x} y\nb: 2") == R"({"a":"x} y","b":2})");
  CHECK(json_of("a: /data/x.txt\nb: C:\\new\t \n") == R"({"a":"/data/x.txt","b":"C:\\new"})");
  CHECK(json_of("a: say \"hi\"\n") == R"({"a":"say \"hi\""})");
}

TEST_CASE("a text that swallowed the bracket is named where the bracket is missed", "[config]") {
  CHECK(config_error_of("{a: word}") ==
        "t:1:10: the object opened at t:1:1 has no closing }; the string at t:1:5 is not in quotes "
        "and so runs to the end of its line, brackets included");
  CHECK(config_error_of("{\nb: [x]\nc: fine\nd: y}\n}") ==
        "t:5:1: expected a value, got '}'; put strings that begin so in quotes");
  CHECK(config_error_of("{a: word\n") == "t:2:1: the object opened at t:1:1 has no closing }");
  CHECK_THAT(config_error_of("a: [one, two]\n"),
             Catch::Contains("the list opened at t:1:4 has no closing ]") &&
                 Catch::Contains("the string at t:1:5 is not in quotes"));
}

TEST_CASE("members may be parted by commas, line breaks or both, and by one comma only",
          "[config]") {
  CHECK(json_of("{\"a\": \"x\" \"b\": \"y\"}") == R"({"a":"x","b":"y"})");
  CHECK(json_of("{\"a\": 1\n,\n\"b\": 2,\n}") == R"({"a":1,"b":2})");
  CHECK(json_of("{a: [1\n2\n,3]}") == R"({"a":[1,2,3]})");
  CHECK(config_error_of("{\"a\": 1,,}") == "t:1:9: expected a key, got ','");
  CHECK_THAT(config_error_of("{\"a\": [1,,2]}"),
             Catch::StartsWith("t:1:10: expected a value, got ','"));
}

TEST_CASE("keys without quotes are words, and all signs but JSON's own belong to them",
          "[config]") {
  CHECK(json_of("{a.b-c/d: 1}") == R"({"a.b-c/d":1})");
  CHECK(json_of("a :1") == R"({"a":1})");
  CHECK(json_of("\"\": 1") == R"({"":1})");
}

TEST_CASE("a key without quotes cannot have blanks, signs or a comment before its colon",
          "[config]") {
  CHECK(config_error_of("{two words: 1}") == "t:1:2: expected a key followed by ':', got 'two'");
  CHECK(config_error_of("{a /* c */: 1}") == "t:1:2: expected a key followed by ':', got 'a'");
  CHECK(config_error_of("{: 1}") == "t:1:2: expected a key, got ':'");
  CHECK(json_of("{\"a\" /* c */: 1}") == R"({"a":1})");
  const std::string long_key(100, 'k');
  CHECK(config_error_of("{" + long_key) ==
        "t:1:2: expected a key followed by ':', got '" + long_key.substr(0, 40) + "'");
}

TEST_CASE("each escape stands for its character, and others are refused in place", "[config]") {
  CHECK(read_config_value(R"("\"\'\\\/\b\f\n\r\t\u0041")", {}).as_string() == "\"'\\/\b\f\n\r\tA");
  CHECK(read_config_value(R"('a"b\'c')", {}).as_string() == "a\"b'c");
  CHECK(config_error_of("{\"a\": \"x\\y\"}") == "t:1:9: unknown escape in a string");
  CHECK(config_error_of("{\"a\": \"x\\") == "t:1:10: the string has no closing quote");
  CHECK(config_error_of("{\"a\": \"x") == "t:1:7: the string has no closing quote");
  for (const char* digits : {"12", "12G4", "+123", "-123", "0x12", " 123"}) {
    CAPTURE(digits);
    CHECK(config_error_of(fmt::format("{{\"a\": \"\\u{}\"}}", digits)) ==
          "t:1:10: \\u needs four hexadecimal digits");
  }
}

TEST_CASE("surrogates are taken in pairs only", "[config]") {
  CHECK(read_config_value(R"("\ud800\udc00")", {}).as_string() == "\xF0\x90\x80\x80");
  CHECK(read_config_value(R"("\uDBFF\uDFFF")", {}).as_string() == "\xF4\x8F\xBF\xBF");
  CHECK(config_error_of(R"({"a": "\ud800\u0041"})") ==
        "t:1:8: \\u escape: a high surrogate needs a low one");
  CHECK(config_error_of(R"({"a": "\ud800\ud800"})") ==
        "t:1:8: \\u escape: a high surrogate needs a low one");
  for (const char* lone : {"\\udc00", "\\udfff", "\\ud800x", "\\udbff\\n"}) {
    CAPTURE(lone);
    CHECK(config_error_of(fmt::format("{{\"a\": \"{}\"}}", lone)) ==
          "t:1:8: \\u escape: a lone surrogate is no character");
  }
}

TEST_CASE("block strings drop the column of their quotes and the lines that hold them",
          "[config]") {
  CHECK(json_of("a: '''one'''") == R"({"a":"one"})");
  CHECK(json_of("a: ''''''") == R"({"a":""})");
  CHECK(json_of("a:\n  '''\n  one\n\n    two\n  three\n  '''") == R"({"a":"one\n\n  two\nthree"})");
  CHECK(json_of("a:\n    '''\n  less\n    '''") == R"({"a":"less"})");
  CHECK(json_of("a: '''first\n   second'''") == R"({"a":"first\nsecond"})");
  CHECK(json_of("a: '''  \n   x\\n'''") == R"({"a":"x\\n"})");
  CHECK(json_of("a: ''' # no comment '''\nb: 2") == R"({"a":"# no comment ","b":2})");
  CHECK(config_error_of("{a:\n '''x''") == "t:2:2: the ''' block has no closing '''");
}

TEST_CASE("a block string knows where it begins, and what follows where it ends", "[config]") {
  const Value root = read_config_document("{a: '''\nx\n''' b: 1\n c: 2}", "t");
  CHECK(root.find("a")->origin().text() == "t:1:5");
  CHECK(root.find_member("b")->origin.text() == "t:3:5");
  CHECK(root.find("c")->origin().text() == "t:4:5");
}

TEST_CASE("duplicate keys are collected with where they stand, and the first value counts",
          "[config]") {
  Problems problems;
  const Value root =
      read_config_document("{a: 1, b: {c: 1, c: 2}\na: {d: 3}\n a: 4, e: 5}", "t", problems);
  CHECK(to_compact_json(root) == R"({"a":1,"b":{"c":1},"e":5})");
  REQUIRE(problems.all().size() == 3);
  CHECK(problems.all()[0].text() == "t:1:18: duplicate key \"c\", first given at t:1:12");
  CHECK(problems.all()[1].text() == "t:2:1: duplicate key \"a\", first given at t:1:2");
  CHECK(problems.all()[2].text() == "t:3:2: duplicate key \"a\", first given at t:1:2");
  CHECK(problems.all()[0].basis == Basis::kDeepSpeed);
}

TEST_CASE("keys are equal by what they mean, not by how they are spelt", "[config]") {
  CHECK_THAT(config_error_of(R"({"a": 1, 'a': 2})"), Catch::Contains("duplicate key \"a\""));
  CHECK_THAT(config_error_of(R"({a: 1, "\u0061": 2})"), Catch::Contains("duplicate key \"a\""));
  CHECK(json_of("{a: 1, A: 2}") == R"({"a":1,"A":2})");
  const std::string name(200, 'n');
  CHECK(config_error_of("{" + name + ": 1, " + name + ": 2}").size() < 120);
}

TEST_CASE("nesting may be 64 deep and no deeper", "[config]") {
  const auto nested = [](size_t depth) {
    std::string text = "a: ";
    for (size_t i = 1; i < depth; ++i) text += i % 2 == 0 ? "{a: " : "[";
    text += "1";
    for (size_t i = depth - 1; i >= 1; --i) text += i % 2 == 0 ? "}" : "]";
    return text;
  };
  CHECK(config_error_of(nested(kMaxDepth)).empty());
  CHECK_THAT(config_error_of(nested(kMaxDepth + 1)),
             Catch::Contains("nested deeper than 64 levels"));
}

TEST_CASE("an overlong number is shown by its beginning", "[config]") {
  CHECK(config_error_of("{a: " + std::string(400, '9') + "}") ==
        "t:1:5: the number " + std::string(40, '9') + " is beyond the range of a double");
  CHECK(config_error_of("{a: -1e309}") ==
        "t:1:5: the number -1e309 is beyond the range of a double");
  CHECK(json_of("{a: -1E-999, b: 1e308, c: 4.9e-324}") == R"({"a":0.0,"b":1e+308,"c":5e-324})");
}

TEST_CASE("what looks almost like a number is a text", "[config]") {
  for (const char* text : {"-", "+1", "1.", ".5", "1e", "1e+", "00", "-01", "1_000", "0x1", "1e5.0",
                           "Infinity", "nan", "True", "NULL", "--1", "1 "}) {
    CAPTURE(text);
    const Value value = *read_config_document(std::string("a: ") + text + "\n", "t").find("a");
    CHECK(value.kind() ==
          (std::string_view(text) == "1 " ? Value::Kind::kInteger : Value::Kind::kString));
  }
  for (const char* text : {"0", "-0", "10", "-7"}) {
    CAPTURE(text);
    CHECK(read_config_value(text, {}).kind() == Value::Kind::kInteger);
  }
  for (const char* text : {"0.0", "-0.5", "1e5", "1E+5", "1e-5", "12.25e1"}) {
    CAPTURE(text);
    CHECK(read_config_value(text, {}).kind() == Value::Kind::kNumber);
  }
}

TEST_CASE("a single value is all of its text", "[config]") {
  const Origin origin{std::make_shared<const std::string>("command line"), 0, 0};
  const auto value = [&](std::string_view text) {
    return to_compact_json(read_config_value(text, origin));
  };
  CHECK(value("") == "\"\"");
  CHECK(value("  ") == "\"\"");
  CHECK(value(" 5 ") == "5");
  CHECK(value("a, b}") == "\"a, b}\"");
  CHECK(value("1, 2") == "\"1, 2\"");
  CHECK(value("[1, 2]") == "[1,2]");
  CHECK(value("{a: 1}") == "{\"a\":1}");
  CHECK(value("'x' ") == "\"x\"");
  CHECK(read_config_value("[1]", origin).origin().text() == "command line");
  CHECK_THROWS_WITH(value("[1] 2"), "command line:1:5: text follows after the end of the value");
  CHECK_THROWS_WITH(value("[1"), Catch::Contains("the list opened at command line:1:1"));
  CHECK_THROWS_WITH(value("a\xFF"), "command line: byte 1 is not valid UTF-8");
  CHECK_THROWS_WITH(value("1e999"), Catch::Contains("beyond the range of a double"));
}

TEST_CASE("base64 gives back every text, with either pair of signs", "[config]") {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::mt19937 random(3);
  for (size_t size = 0; size < 70; ++size) {
    std::string bytes;
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random());
    std::string text;
    for (size_t i = 0; i < size; i += 3) {
      uint32_t group = 0;
      for (size_t k = 0; k < 3; ++k) {
        group = group << 8 | (i + k < size ? static_cast<unsigned char>(bytes[i + k]) : 0U);
      }
      for (size_t k = 0; k < 4; ++k) {
        text += i + k > size ? '=' : kDigits[group >> (18 - 6 * k) & 63];
      }
    }
    std::string plain = text;
    for (char& c : plain) c = c == '-' ? '+' : c == '_' ? '/' : c;
    CAPTURE(size, text);
    CHECK((decode_base64(text) == bytes));
    CHECK((decode_base64(plain) == bytes));
    CHECK((decode_base64(text + " \r\n") == bytes));
  }
}

TEST_CASE("base64 with a sign of no alphabet, or cut off, is refused", "[config]") {
  CHECK_THROWS_WITH(decode_base64("abc"), Catch::Contains("cut off"));
  CHECK_THROWS_WITH(decode_base64("ab\ncd"), Catch::Contains("cut off"));
  CHECK_THROWS_WITH(decode_base64("abcd ef="), Catch::Contains("character 5"));
  CHECK_THROWS_WITH(decode_base64("a=cd"), Catch::Contains("character 2"));
  CHECK_THROWS_WITH(decode_base64("a==="), Catch::Contains("character 2"));
  CHECK_THROWS_AS(decode_base64("\xC3\xA9"
                                "ab"),
                  ConfigError);
}

}  // namespace ds
