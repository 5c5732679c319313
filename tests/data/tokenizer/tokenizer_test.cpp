// Tokenizers: ids equal to those of the reference implementation, and refusal of what is not
// supported.
#include "data/tokenizer/tokenizer.h"

#include <sstream>

#include "data/tokenizer/models/byte_pair.h"
#include "data/tokenizer/split/added_tokens.h"
#include "data/tokenizer/split/pattern.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

const std::string kFolder = testing::source_directory() + "/tests/data/tokenizer/golden/";

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
  BytePairEncoder encoder({}, {{"a", 0}, {"aa", 1}, {"aaaa", 2}});
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
  BytePairEncoder encoder({}, {{"a", 0}, {"b", 1}, {"c", 2}, {"ab", 3}, {"bc", 4}, {"abc", 5}});
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
  CHECK_THROWS_WITH(load(json(R"({"type":"CRF","vocab":{}})", kByteLevel)),
                    Contains("the model CRF is not supported"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","vocab":{},"merges":[],"dropout":0.1})", "")),
                    Contains("dropout"));
  CHECK_THROWS_WITH(load(json(kModel, R"("normalizer":{"type":"Lua"})")),
                    Contains("the normalizer Lua"));
  CHECK_THROWS_WITH(load(json(kModel, R"("pre_tokenizer":{"type":"Lua"})")),
                    Contains("the pre-tokenizer Lua"));
  CHECK_THROWS_WITH(load(json(kModel, R"("decoder":{"type":"CTC"})")), Contains("the decoder CTC"));
  CHECK_THROWS_WITH(load(json(kModel, R"("pre_tokenizer":{"type":"Split","pattern":{"Regex":"a"},)"
                                      R"("behavior":"MergedTwice"})")),
                    Contains("the behavior MergedTwice of Split"));
  CHECK_THROWS_WITH(load(json(kModel, R"("pre_tokenizer":{"type":"Metaspace","replacement":"_",)"
                                      R"("prepend_scheme":"often"})")),
                    Contains("the prepend_scheme often"));
  CHECK_THROWS_AS(load(json(kModel, R"("normalizer":{"type":"Lua"})")), Unsupported);
  CHECK_NOTHROW(load(json(kModel, kByteLevel)));
  CHECK_NOTHROW(load(json(kModel, R"("decoder":{"type":"ByteLevel"})")));
}

TEST_CASE("what a tokenizer.json would cut or fill is noted, and texts keep their length",
          "[data]") {
  for (const std::string key : {"truncation", "padding"}) {
    const auto with = [&](const std::string& value) {
      return load(json(kModel, fmt::format("{},\"{}\":{}", kByteLevel, key, value)));
    };
    const auto limited = with(R"({"max_length":2})");
    CHECK(limited->encode("aaaa").size() == 4);
    REQUIRE(limited->notes().size() == 1);
    CHECK_THAT(limited->notes()[0], Catch::Contains("\"" + key + "\""));
    CHECK(with("null")->notes().empty());
  }
}

TEST_CASE("the tokenizer of a folder is its tokenizer.json, or one error", "[data]") {
  using Catch::Contains;
  MemoryFileSystem fs;
  const auto put = [&](const std::string& path) { fs.write_text_atomically(path, "{}"); };
  for (const char* folder : {"/json", "/none", "/piece", "/apart", "/named"})
    fs.make_directory(folder);
  put("/json/tokenizer.json");
  put("/json/tokenizer.model");
  put("/none/config.json");
  put("/piece/tokenizer.model");
  put("/apart/vocab.json");
  put("/apart/merges.txt");
  put("/named/gpt2.json");
  CHECK(find_tokenizer(fs, "byte") == "byte");
  CHECK(find_tokenizer(fs, "/json") == "/json/tokenizer.json");
  CHECK(find_tokenizer(fs, "/named/gpt2.json") == "/named/gpt2.json");
  CHECK_THROWS_AS(find_tokenizer(fs, "/none"), InputMissing);
  CHECK_THROWS_WITH(find_tokenizer(fs, "/none"),
                    Contains("/none: the folder holds no tokenizer") && Contains("\"byte\""));
  CHECK(find_tokenizer(fs, "/piece") == "/piece/tokenizer.model");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/piece"),
                    Contains("/piece/tokenizer.model: no model of SentencePiece"));
  CHECK(find_tokenizer(fs, "/apart") == "/apart/vocab.json");
  CHECK_THROWS_AS(make_tokenizer(fs, "/nowhere"), InputMissing);
}

TEST_CASE("what belongs to a tokenizer is found beside it", "[data]") {
  using Names = std::map<std::string, std::string>;
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.make_directory("/m/additional_chat_templates");
  for (const char* name :
       {"tokenizer.json", "merges.txt", "config.json", "model.safetensors", "chat_template.jinja",
        "tokenizer_config.json", "other.json", "additional_chat_templates/rag.jinja"}) {
    fs.write_text_atomically(std::string("/m/") + name, "{}");
  }
  const Names whole = {
      {"tokenizer.json", "/m/tokenizer.json"},
      {"merges.txt", "/m/merges.txt"},
      {"chat_template.jinja", "/m/chat_template.jinja"},
      {"tokenizer_config.json", "/m/tokenizer_config.json"},
      {"additional_chat_templates/rag.jinja", "/m/additional_chat_templates/rag.jinja"}};
  CHECK(tokenizer_files(fs, "/m") == whole);
  CHECK(tokenizer_files(fs, "/m/tokenizer.json") == whole);
  CHECK(tokenizer_files(fs, "/m/other.json") ==
        Names{{"tokenizer.json", "/m/other.json"},
              {"tokenizer_config.json", "/m/tokenizer_config.json"}});
  CHECK(tokenizer_files(fs, "byte").empty());
  CHECK(tokenizer_files(fs, "/nowhere").empty());
}

TEST_CASE("a tokenizer is not larger than the model's vocabulary", "[data]") {
  const auto tokenizer = load(json(kModel, kByteLevel));
  CHECK_NOTHROW(check_vocabulary(*tokenizer, "t", 3));
  CHECK_NOTHROW(check_vocabulary(*tokenizer, "t", 64));
  CHECK_THROWS_AS(check_vocabulary(*tokenizer, "t", 2), ConfigError);
  CHECK_THROWS_WITH(check_vocabulary(*tokenizer, "/m", 2),
                    Catch::Contains("/m has 3 tokens") && Catch::Contains("vocab_size is 2"));
}

TEST_CASE("malformed tokenizer files are refused with their defect", "[data]") {
  using Catch::Contains;
  CHECK_THROWS_WITH(load("{"), Contains("/tokenizer.json: not valid JSON at byte 1"));
  CHECK_THROWS_WITH(load("[]"), Contains("not a JSON object"));
  CHECK_THROWS_WITH(load("{}"), Contains("there is no model"));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","merges":[]})", kByteLevel)),
                    Contains("BPE has no \"vocab\""));
  CHECK_THROWS_WITH(load(json(R"({"type":"BPE","vocab":{}})", kByteLevel)),
                    Contains("BPE has no \"merges\""));
  const auto with_vocab = [](const std::string& vocab, const std::string& merges) {
    return json(fmt::format(R"({{"type":"BPE","vocab":{},"merges":{}}})", vocab, merges),
                kByteLevel);
  };
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1.5})", "[]")), Contains("is no integer"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":-1})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":4294967296})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":99999999})", "[]")), Contains("out of range"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1,"b":1})", "[]")), Contains("given to two tokens"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"(["a"])")), Contains("merge 0"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"([["a","a","a"]])")), Contains("merge 0"));
  CHECK_THROWS_WITH(load(with_vocab(R"({"a":1})", R"(["a a"])")),
                    Contains("'aa', which is not in"));
  CHECK_THROWS_WITH(
      load(json(kModel, fmt::format(R"({},"added_tokens":[{{"id":1}}])", kByteLevel))),
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

namespace {

std::vector<std::string> matches(const std::string& pattern, const std::string& text) {
  PatternWork work(text.size());
  std::vector<std::string> out;
  Regex(pattern).for_each_match(text, Regex::TextEnd::kEnd, work, [&](size_t begin, size_t end) {
    if (end > begin) out.push_back(text.substr(begin, end - begin));
    return true;
  });
  return out;
}

std::string repeated(const std::string& what, int times) {
  std::string out;
  for (int i = 0; i < times; ++i) out += what;
  return out;
}

}  // namespace

TEST_CASE("a pattern that backtracks for ever is stopped, by name", "[data]") {
  CHECK_THROWS_WITH(matches("(a+)+$", repeated("a", 60) + "b"),
                    Catch::Contains("pattern '(a+)+$' takes too much work at byte 0"));
  CHECK_THROWS_AS(matches("(a+)+$", repeated("a", 60) + "b"), DataError);
}

TEST_CASE("the limit on a pattern's work holds for all places of a text together", "[data]") {
  // Each place alone takes n steps, no more than a long word may; n places take n^2.
  const std::string text = repeated("a", 40'000);
  CHECK_THROWS_AS(matches("(?:a|b)*(?:c|d)", text), DataError);
  CHECK_THROWS_AS(matches("(?=.*+)c?", text),
                  DataError);  // looks ahead over all of it, without backtracking
  const Regex regex("(?:a|b)*(?:c|d)");
  PatternWork work(100'000);
  const auto many_calls = [&] {
    for (int i = 0; i < 1000; ++i)
      regex.for_each_match(repeated("a", 2000), Regex::TextEnd::kEnd, work,
                           [](size_t, size_t) { return true; });
  };
  CHECK_THROWS_AS(many_calls(), DataError);
}

TEST_CASE("a pattern finds the same wherever the text is and however long matches are", "[data]") {
  const std::string pattern = R"((?i:'s|'t|'re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                              R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const std::string text = "It's " + repeated("é", 700) + repeated(" ", 3000) + "x" +
                           repeated("?", 1300) + "\n" + repeated(" ", 600) + "\n" +
                           repeated("12345", 300) + " 's't" + repeated("漢字 ", 400);
  const std::vector<std::string> expected = matches(pattern, text);
  CHECK(expected.size() > 900);
  for (int shift = 1; shift < 600; shift += 37) {
    const std::string before = repeated("ab\n", shift);
    std::vector<std::string> shifted = matches(pattern, before + text);
    const std::vector<std::string> first = matches(pattern, before);
    REQUIRE(shifted.size() == first.size() + expected.size());
    CHECK(std::equal(expected.begin(), expected.end(),
                     shifted.end() - static_cast<ptrdiff_t>(expected.size())));
  }
  CHECK(matches(R"(\p{N})", repeated("x", 5000) + "7" + repeated("y", 5000) + "8") ==
        std::vector<std::string>{"7", "8"});
  CHECK(matches("a+$", repeated("a", 5000)) == std::vector<std::string>{repeated("a", 5000)});
  CHECK(matches("a+$", repeated("a", 2000) + "b").empty());
  CHECK(matches("(?<=b)a+", "b" + repeated("a", 2000)).size() == 1);
}

TEST_CASE("natural text with long runs is far from the limit on work", "[data]") {
  const std::string pattern = R"( ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s*[\r\n]+|\s+(?!\S)|\s+)";
  CHECK(matches(pattern, repeated(" ", 100'000) + "x").size() == 2);
  CHECK(matches(pattern, repeated(repeated(" ", 1000) + "word", 300)).size() == 600);
  CHECK(matches(pattern, repeated("x", 200'000)).size() == 1);
}

TEST_CASE("of added tokens the leftmost, then the longest is found", "[data]") {
  const auto keep = AddedToken::Strip::kKeep;
  const auto strip = AddedToken::Strip::kStrip;
  const auto word = AddedToken::Where::kWholeWord;
  const AddedTokens tokens({{"<a>", 1, keep, keep},
                            {"<ab>", 2, keep, keep},
                            {"<a>>", 3, keep, keep},
                            {"<a>", 9, keep, keep},
                            {"<", 4, keep, keep},
                            {"by", 6, keep, keep, word},
                            {" x", 5, strip, strip}});
  const auto split = [&](std::string_view text) {
    std::string out;
    const auto on_text = [&](std::string_view section, const TextPart&) {
      out += fmt::format("[{}]", section);
      return section.size();
    };
    tokens.split(text, {}, on_text, [&](int32_t id) { out += std::to_string(id); });
    return out;
  };
  CHECK(split("") == "");
  CHECK(split("text") == "[text]");
  CHECK(split("q<a>>r<a>s<abt<") == "[q]3[r]1[s]4[abt]4");
  CHECK(split("<ab><a") == "24[a]");
  CHECK(split("u   x  v") == "[u]5[v]");
  CHECK(split("u\u00a0\u3000 x\u2009v") == "[u]5[v]");  // white space is Unicode's
  CHECK(split("by the bye, by-by by") == "6[ the bye, ]6[-]6[ ]6");
  CHECK(split("\u00e9by by\u0301 _by by2") == "[\u00e9by by\u0301 _by by2]");
  CHECK(AddedTokens({}).kLongest == 1024);
}

TEST_CASE("white space that one added token takes may be others, as in the reference", "[data]") {
  const auto keep = AddedToken::Strip::kKeep;
  const auto strip = AddedToken::Strip::kStrip;
  const AddedTokens tokens(
      {{"<a>", 1, keep, strip}, {"  ", 2, keep, keep}, {"\n", 3, strip, keep}});
  const auto split = [&](std::string_view text) {
    std::string out;
    const auto on_text = [&](std::string_view section, const TextPart&) {
      out += fmt::format("[{}]", section);
      return section.size();
    };
    tokens.split(text, {}, on_text, [&](int32_t id) { out += std::to_string(id); });
    return out;
  };
  CHECK(split("<a> x") == "1[x]");
  CHECK(split("<a>  x") == "12[x]");
  CHECK(split("<a>   x") == "12[ x]");  // the last blank is text again
  CHECK(split("<a>\n x") == "1[x]");    // nothing is left of it
  CHECK(split("<a> \nx") == "1[x]");
  CHECK(split("x \n y") == "[x]3[ y]");
  std::string spaces = "<a>";
  spaces.append(1 << 20, ' ');
  CHECK(split(spaces + "x").size() == 1 + (1 << 19) + 3);  // in time
}

TEST_CASE("twenty thousand added tokens and a high id are read like any others", "[data]") {
  std::string list;
  for (int i = 0; i < 20'000; ++i) {
    list += fmt::format(R"({}{{"id":{},"content":"<|{}|>"}})", i == 0 ? "" : ",", 3 + i, i);
  }
  const std::string high = R"(,{"id":16777215,"content":"<high>"})";
  const auto tokenizer =
      load(json(kModel, fmt::format(R"({},"added_tokens":[{}{}])", kByteLevel, list, high)));
  CHECK(tokenizer->encode("ab<|7|>a<|19999|><high>") ==
        std::vector<int32_t>{2, 10, 0, 20002, 16777215});
  CHECK(tokenizer->decode(std::vector<int32_t>{16777215, 10}) == "<high><|7|>");
  CHECK(tokenizer->vocab_size() == 16777216);
  CHECK_THROWS_AS(tokenizer->decode(std::vector<int32_t>{16777000}), DataError);
  const std::string longest = repeated("x", 1025);
  CHECK_THROWS_WITH(
      load(json(kModel, fmt::format(R"({},"added_tokens":[{{"id":3,"content":"{}"}}])", kByteLevel,
                                    longest))),
      Catch::Contains("an added token has 1025 bytes, expected at most 1024"));
}

TEST_CASE("literal split patterns and empty matches are handled", "[data]") {
  const auto tokenizer =
      load(json(kModel, R"("pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Split",)"
                        R"("pattern":{"String":"."},"behavior":"Removed","invert":false},)"
                        R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"));
  CHECK(tokenizer->encode("ab.a.b") == std::vector<int32_t>{2, 0, 1});
  CHECK(matches("x*", "aéxxb") == std::vector<std::string>{"xx"});
}
