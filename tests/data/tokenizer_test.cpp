// Tokenizers: ids equal to those of the reference implementation, and refusal of what is not supported.
#include "data/tokenizer.h"

#include <sstream>

#include "core/memory_file_system.h"
#include "data/byte_pair.h"
#include "data/pre_tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

const std::string kFolder = testing::source_directory() + "/tests/data/tokenizers/";

std::string from_hex(const std::string& hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return out;
}

struct Expected {
  std::string text;
  std::vector<int32_t> ids;
};

std::vector<Expected> read_expected(const std::string& name) {
  RealFileSystem fs;
  std::istringstream lines(fs.read_text(kFolder + name + ".expected", 1 << 20));
  std::vector<Expected> out;
  std::string line;
  while (std::getline(lines, line)) {
    const size_t tab = line.find('\t');
    Expected expected{from_hex(line.substr(0, tab)), {}};
    std::istringstream ids(line.substr(tab + 1));
    for (int32_t id = 0; ids >> id;) expected.ids.push_back(id);
    out.push_back(std::move(expected));
  }
  return out;
}

// A tokenizer.json with one part replaced.
std::string json(std::string_view model, std::string_view rest) {
  return fmt::format(R"({{"model":{}{}{}}})", model, rest.empty() ? "" : ",", rest);
}
const std::string kModel = R"({"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]})";
const std::string kByteLevel = R"("pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false})";

std::unique_ptr<Tokenizer> load(std::string_view text) {
  MemoryFileSystem fs;
  fs.create("/tokenizer.json")->write(0, std::as_bytes(std::span(text)));
  return make_tokenizer(fs, "/");
}

}  // namespace

TEST_CASE("BPE ids equal those of the reference implementation", "[data]") {
  RealFileSystem fs;
  for (const std::string name : {"gpt2", "gpt2_prefix_space", "llama3", "digits"}) {
    const auto tokenizer = load_tokenizer(fs, kFolder + name + ".json");
    const auto cases = read_expected(name);
    REQUIRE(cases.size() > 50);
    for (const Expected& expected : cases) {
      INFO(name << ": '" << expected.text << "'");
      CHECK(tokenizer->encode(expected.text) == expected.ids);
    }
  }
}

TEST_CASE("decoding gives the text back", "[data]") {
  RealFileSystem fs;
  for (const std::string name : {"gpt2", "llama3"}) {
    const auto tokenizer = load_tokenizer(fs, kFolder + name + ".json");
    for (const Expected& expected : read_expected(name)) {
      const bool strips = expected.text.find("<|pad|>") != std::string::npos;
      if (!strips) CHECK(tokenizer->decode(expected.ids) == expected.text);
    }
    CHECK(tokenizer->vocab_size() == 422);
    CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{422}), DataError);
    CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{-1}), DataError);
  }
}

TEST_CASE("the byte tokenizer is the identity on bytes", "[data]") {
  MemoryFileSystem fs;
  const auto tokenizer = make_tokenizer(fs, "byte");
  CHECK(tokenizer->vocab_size() == 256);
  CHECK(tokenizer->encode("a\xff") == std::vector<int32_t>{97, 255});
  CHECK(tokenizer->decode(std::vector<int32_t>{97, 255}) == "a\xff");
  CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{256}), DataError);
}

TEST_CASE("a piece of a quarter million letters is merged in reasonable time", "[data]") {
  BytePairEncoder encoder(BytePairEncoder::WholePieces::kMerge);
  encoder.add_token("a", 0);
  encoder.add_token("aa", 1);
  encoder.add_token("aaaa", 2);
  encoder.add_merge("a", "a");
  encoder.add_merge("aa", "aa");
  std::vector<int32_t> ids;
  encoder.encode(std::string((1 << 18) + 3, 'a'), ids);
  CHECK(ids.size() == (1 << 16) + 2);
  CHECK(ids.front() == 2);
  CHECK(ids[ids.size() - 2] == 1);
  CHECK(ids.back() == 0);
}

TEST_CASE("merges go by rank, then leftmost first", "[data]") {
  BytePairEncoder encoder(BytePairEncoder::WholePieces::kMerge);
  for (int32_t id = 0; const char* token : {"a", "b", "c", "ab", "bc", "abc"}) {
    encoder.add_token(token, id++);
  }
  encoder.add_merge("b", "c");
  encoder.add_merge("a", "b");
  std::vector<int32_t> ids;
  encoder.encode("abcab", ids);
  CHECK(ids == std::vector<int32_t>{0, 4, 3});
  CHECK_THROWS_AS(encoder.add_merge("c", "c"), DataError);
  CHECK_THROWS_WITH(encoder.encode("xyz", ids), Catch::Contains("byte 0x78"));
}

TEST_CASE("unsupported tokenizers are refused by name", "[data]") {
  using Catch::Contains;
  CHECK_THROWS_WITH(load(json(R"({"type":"WordPiece"})", kByteLevel)), Contains("WordPiece"));
  CHECK_THROWS_WITH(load(json(R"({"type":"Unigram"})", "")), Contains("Unigram"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","byte_fallback":true})", "")),
                    Contains("byte_fallback"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","dropout":0.1})", "")), Contains("dropout"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","end_of_word_suffix":"</w>"})", "")),
                    Contains("end_of_word_suffix"));
  CHECK_THROWS_WITH(load(json(kModel, R"("normalizer":{"type":"NFC"})")), Contains("NFC"));
  CHECK_THROWS_WITH(load(json(kModel, R"("pre_tokenizer":{"type":"Metaspace"})")),
                    Contains("Metaspace"));
  CHECK_THROWS_WITH(load(json(kModel, "")), Contains("not byte-level"));
  CHECK_THROWS_WITH(
      load(json(kModel, R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},)"
                        R"("behavior":"MergedWithNext"})")),
      Contains("MergedWithNext"));
  CHECK_THROWS_AS(load(json(kModel, R"("normalizer":{"type":"NFC"})")), Unsupported);
  CHECK_NOTHROW(load(json(kModel, kByteLevel)));
  CHECK_NOTHROW(load(json(kModel, R"("decoder":{"type":"ByteLevel"})")));
}

TEST_CASE("malformed tokenizer files are refused with their defect", "[data]") {
  using Catch::Contains;
  CHECK_THROWS_WITH(load("{"), Contains("/tokenizer.json: not valid JSON at byte 1"));
  CHECK_THROWS_WITH(load("[]"), Contains("not a JSON object"));
  CHECK_THROWS_WITH(load("{}"), Contains("there is no model"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","merges":[]})", kByteLevel)), Contains("model.vocab"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","vocab":{}})", kByteLevel)), Contains("model.merges"));
  const auto with_vocab = [](const std::string& vocab, const std::string& merges) {
    return json(fmt::format(R"({{"type":"BPE","vocab":{},"merges":{}}})", vocab, merges), kByteLevel);
  };
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1.5})", "[]")), Contains("is no integer"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":-1})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":4294967296})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":99999999})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1,"b":1})", "[]")), Contains("given to two tokens"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"(["a"])")), Contains("merge 0"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"([["a","a","a"]])")), Contains("merge 0"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"(["a a"])")), Contains("'aa', which is not in"));
  CHECK_THROWS_WITH(load(json(kModel, fmt::format(R"({},"added_tokens":[{{"id":1}}])", kByteLevel))),
                    Contains("lacks its id or content"));
  CHECK_THROWS_WITH(load(json(kModel, R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"(a"},)"
                                      R"("behavior":"Isolated"})")),
                    Contains("missing closing parenthesis"));
  std::string deep = R"("pre_tokenizer":)";
  for (int i = 0; i < 20; ++i) deep += R"({"type":"Sequence","pretokenizers":[)";
  for (int i = 0; i < 20; ++i) deep += "]}";
  CHECK_THROWS_WITH(load(json(kModel, deep)), Contains("nested too deep"));
  MemoryFileSystem fs;
  CHECK_THROWS_AS(make_tokenizer(fs, "/missing.json"), InputMissing);
}

TEST_CASE("invalid UTF-8 is reported with its offset", "[data]") {
  RealFileSystem fs;
  const auto tokenizer = load_tokenizer(fs, kFolder + "gpt2.json");
  CHECK_THROWS_WITH(tokenizer->encode("abc\xff"), Catch::Contains("byte 3 of the text"));
}

TEST_CASE("a pattern that backtracks for ever is stopped", "[data]") {
  const Regex regex("(a+)+$");
  const auto ignore = [](size_t, size_t) {};
  const std::string text = fmt::format("{:a>60}b", "");
  CHECK_THROWS_AS(regex.for_each_match(text, ignore), DataError);
}

TEST_CASE("literal split patterns and empty matches are handled", "[data]") {
  const auto tokenizer = load(json(
      kModel, R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",)"
              R"("pattern":{"String":"."},"behavior":"Removed","invert":false},)"
              R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"));
  CHECK(tokenizer->encode("ab.a.b") == std::vector<int32_t>{2, 0, 1});
  int matches = 0;
  Regex("x*").for_each_match("aéxxb", [&](size_t begin, size_t end) {
    CHECK(begin == 3);
    CHECK(end == 5);
    ++matches;
  });
  CHECK(matches == 1);
}
