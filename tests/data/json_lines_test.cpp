// Texts out of JSON lines, against a plain reader in this test: wherever the pieces of the stream
// begin and end, every line comes with its number.
#include "data/text/json_lines.h"

#include <random>

#include "core/status/error.h"
#include "tests/support/catch.h"

using namespace ds;

namespace {

// Gives a text in pieces of chosen sizes, and counts what was asked of it.
class Pieces final : public ByteStream {
 public:
  Pieces(std::string text, std::vector<size_t> sizes)
      : text_(std::move(text)), sizes_(std::move(sizes)) {}

  size_t read(std::span<char> into) override {
    const size_t wanted = sizes_[reads_++ % sizes_.size()];
    const size_t count = std::min({wanted, into.size(), text_.size() - at_});
    std::copy_n(text_.begin() + static_cast<ptrdiff_t>(at_), count, into.begin());
    at_ += count;
    return count;
  }
  size_t read_so_far() const { return at_; }

 private:
  std::string text_;
  std::vector<size_t> sizes_;
  size_t at_ = 0;
  size_t reads_ = 0;
};

struct Text {
  int64_t line;
  std::string text;
  bool operator==(const Text&) const = default;
};

std::vector<Text> texts_of(const std::string& lines, const std::vector<size_t>& sizes = {100},
                           const std::string& field = "text") {
  Pieces stream(lines, sizes);
  std::vector<Text> out;
  for_each_json_text(stream, "f", field, [&](std::string_view text, int64_t line) {
    out.push_back({line, std::string(text)});
  });
  return out;
}

std::string refusal_of(const std::string& lines, const std::string& field = "text") {
  try {
    texts_of(lines, {7}, field);
  } catch (const DataError& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("lines come whole and numbered, however the stream is cut", "[data]") {
  std::mt19937 random(12);
  for (int trial = 0; trial < 200; ++trial) {
    std::string lines;
    std::vector<Text> expected;
    const size_t count = random() % 8;
    for (size_t i = 0; i < count; ++i) {
      if (random() % 4 == 0) {
        lines += random() % 2 == 0 ? "" : " \t\r";
      } else {
        const std::string text(random() % 30, static_cast<char>('a' + random() % 26));
        lines += "{\"id\": 1, \"text\": \"" + text + "\"}";
        expected.push_back({static_cast<int64_t>(i + 1), text});
      }
      if (i + 1 < count || random() % 2 == 0) lines += random() % 3 == 0 ? "\r\n" : "\n";
    }
    const std::vector<size_t> sizes = {1 + random() % 40, 1 + random() % 5};
    CAPTURE(trial, lines, sizes[0], sizes[1]);
    REQUIRE(texts_of(lines, sizes) == expected);
  }
}

TEST_CASE("escapes of JSON become the characters that they stand for", "[data]") {
  CHECK(texts_of(R"({"text": "a\n\t\"\\\/b\u00e9\ud83d\ude00"})")[0].text ==
        "a\n\t\"\\/b\xC3\xA9\xF0\x9F\x98\x80");
  CHECK(texts_of(R"({"text": "a\u0000b"})")[0].text == std::string("a\0b", 3));
  CHECK(texts_of(R"({"text": ""})")[0].text.empty());
}

TEST_CASE("only the field of the line itself counts", "[data]") {
  CHECK(texts_of(R"({"meta": {"text": "inner"}, "text": "outer"})")[0].text == "outer");
  CHECK_THAT(refusal_of(R"({"meta": {"text": "inner"}})"), Catch::Contains("there are: meta"));
  CHECK(texts_of(R"({"a.b": "x"})", {9}, "a.b")[0].text == "x");
  CHECK(texts_of(R"({"": "x"})", {9}, "")[0].text == "x");
}

TEST_CASE("a line without the field lists some that it has", "[data]") {
  CHECK(
      refusal_of("{}") ==
      "f:1: there is no field \"text\"; data.field, or --field, chooses another (there are: none)");
  std::string many = "{";
  for (char c = 'a'; c <= 'j'; ++c) many += fmt::format("{}\"{}\": 1", c == 'a' ? "" : ", ", c);
  CHECK(refusal_of("\n" + many + "}\n", "Text") ==
        "f:2: there is no field \"Text\"; data.field, or --field, chooses another (there are: a, "
        "b, c, d, e, f, "
        "g, h, ...)");
}

TEST_CASE("a field that is no string is refused whatever it is", "[data]") {
  for (const char* value : {"1", "null", "true", "[\"a\"]", "{\"text\": \"a\"}"}) {
    CHECK(refusal_of(fmt::format("{{\"text\": {}}}", value)) ==
          "f:1: the field \"text\" is no string");
  }
}

TEST_CASE("what is no JSON object on one line is refused with the line", "[data]") {
  CHECK_THAT(refusal_of("{\"text\": \"a\"}\n\n{\"text\": \"b\"\n}\n"),
             Catch::StartsWith("f:3: not valid JSON at byte 12 of the line"));
  CHECK_THAT(refusal_of("{\"text\": \"a\"} {\"text\": \"b\"}\n"),
             Catch::StartsWith("f:1: not valid JSON at byte 14"));
  CHECK_THAT(refusal_of("\"text\"\n"), Catch::StartsWith("f:1: the line is no JSON object"));
  CHECK_THAT(refusal_of("{\"text\": \"\xC3\"}\n"), Catch::StartsWith("f:1: not valid JSON"));
  CHECK_THAT(refusal_of("{\"text\": 'a'}\n"), Catch::StartsWith("f:1: not valid JSON"));
}

TEST_CASE("texts before a bad line have been given", "[data]") {
  Pieces stream("{\"text\": \"a\"}\n{\"text\": \"b\"}\nno\n", {1000});
  std::string seen;
  CHECK_THROWS_WITH(for_each_json_text(stream, "f", "text",
                                       [&](std::string_view text, int64_t) { seen += text; }),
                    Catch::StartsWith("f:3:"));
  CHECK(seen == "ab");
}

TEST_CASE("a line may be nested as deep as it likes", "[data]") {
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  CHECK(texts_of("{\"deep\": " + deep + ", \"text\": \"a\"}", {1 << 20})[0].text == "a");
}

TEST_CASE("the first text is found without reading on", "[data]") {
  const std::string lines = "\n\n{\"text\": \"first\"}\n" + std::string(10'000, 'x');
  Pieces stream(lines, {50});
  CHECK(first_json_text(stream, "f", "text") == "first");
  CHECK(stream.read_so_far() == 50);
  Pieces last("{\"text\": \"only\"}", {4});  // no line break at the end
  CHECK(first_json_text(last, "f", "text") == "only");
  Pieces empty("\n \n", {10});
  CHECK(first_json_text(empty, "f", "text").empty());
  Pieces wrong("\n{\"body\": 1}\n", {10});
  CHECK_THROWS_WITH(first_json_text(wrong, "f", "text"), Catch::StartsWith("f:2: there is no"));
}

TEST_CASE("what Python writes for numbers that are none is read beside the text", "[data]") {
  const std::string lines =
      "{\"score\": NaN, \"text\": \"a\"}\n"
      "{\"text\": \"b\", \"scores\": [Infinity, -Infinity, {\"x\": NaN}]}\n";
  const std::vector<Text> expected = {{1, "a"}, {2, "b"}};
  CHECK(texts_of(lines) == expected);
  CHECK(texts_of(lines, {3}) == expected);
  CHECK(refusal_of("{\"text\": NaN}") == "f:1: the field \"text\" is no string");
  CHECK_THAT(refusal_of("{\"text\": \"a\", \"b\": nan}"), Catch::Contains("not valid JSON"));
}

TEST_CASE("a byte order mark before the first line is left out", "[data]") {
  CHECK(texts_of("\xEF\xBB\xBF{\"text\": \"a\"}\r\n{\"text\": \"b\"}") ==
        std::vector<Text>{{1, "a"}, {2, "b"}});
  CHECK(texts_of("\xEF\xBB\xBF\r\n{\"text\": \"\xEF\xBB\xBF"
                 "b\"}",
                 {2}) == std::vector<Text>{{2,
                                            "\xEF\xBB\xBF"
                                            "b"}});
  CHECK(texts_of("\xEF\xBB\xBF").empty());
}

TEST_CASE("a document over the whole file is refused with what makes lines of it", "[data]") {
  const auto refusal = [](const std::string& text) {
    try {
      texts_of(text, {1 << 20});
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  CHECK(refusal("[\n  {\n    \"text\": \"a\"\n  }\n]\n") ==
        "f:1: the file is one JSON document, and each line must be one JSON object; a list of "
        "objects "
        "becomes JSON lines with: jq -c '.[]' FILE > FILE.jsonl");
  CHECK_THAT(refusal("\n[{\"text\": \"a\"}]"),
             Catch::StartsWith("f:2: the line is no JSON object; a list"));
  CHECK_THAT(refusal("{\n\"data\": [\n{\"text\": \"a\"}]\n}"), Catch::Contains("jq -c '.data[]'"));
  CHECK_THAT(refusal("{\"data\": [{\"text\": \"a\"}], \"version\": 1}"),
             Catch::Contains("there is no field \"text\"") &&
                 Catch::Contains("there are: data, version") &&
                 Catch::EndsWith("jq -c '.data[]' FILE > FILE.jsonl"));
  CHECK_THAT(refusal("{\n\"text\": \"a\"\n}"), Catch::Contains("jq -c . FILE"));
  CHECK_THAT(refusal("\xFF\xFE{\0\n\0"), Catch::Contains("UTF-16 text"));
  // A later line is damage, not another layout.
  CHECK_THAT(refusal("{\"text\": \"a\"}\n[\n"),
             Catch::StartsWith("f:2: not valid JSON") && !Catch::Contains("document"));
}

TEST_CASE("a file of datasets that is about the data is refused as that", "[data]") {
  Pieces stream("{\"default\": {}}", {100});
  CHECK_THROWS_WITH(first_json_text(stream, "d/dataset_infos.json", "text"),
                    Catch::Contains("there is no field \"text\"") &&
                        Catch::Contains("about data and holds none"));
}
