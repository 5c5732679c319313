// Vocabularies of bytes by rank: ids equal those of the reference implementations; what is beside a
// file says how it is read; and what is said of bad ones.
#include <rapidjson/document.h>

#include <sstream>

#include "data/tokenizer/models/byte_pair.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/text/base64.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"
#include "tests/support/golden.h"

using namespace ds;

namespace {

using Ids = std::vector<int32_t>;
using Catch::Contains;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

std::string digest_of(const Ids& ids) {  // FNV-1a
  uint64_t out = 0xCBF29CE484222325;
  for (const char c : fmt::format("{}", fmt::join(ids, ",")))
    out = (out ^ static_cast<unsigned char>(c)) * 0x100000001B3;
  return fmt::format("{:016x}", out);
}

// The tekken.json of ranks, which leaves out the last five.
std::string tekken_of(const std::string& ranks, const std::string& pattern) {
  std::string vocab, quoted;
  int64_t count = 0;
  std::istringstream lines(ranks);
  for (std::string line; std::getline(lines, line); ++count) {
    vocab += fmt::format(R"({}{{"rank":{},"token_bytes":"{}","token_str":null}})",
                         count > 0 ? "," : "", count, line.substr(0, line.find(' ')));
  }
  for (const char c : pattern) {
    if (c == '\\' || c == '"') quoted += '\\';
    quoted += c;
  }
  return fmt::format(
      R"({{"config":{{"pattern":"{}","default_vocab_size":{},"default_num_special_tokens":30,)"
      R"("version":"v3"}},"vocab":[{}]}})",
      quoted, 30 + count - 5, vocab);
}

// Every byte, then some tokens.
std::string ranks_of(const std::vector<std::string>& more) {
  std::string out;
  int rank = 0;
  for (; rank < 256; ++rank)
    out += fmt::format("{} {}\n", to_base64(std::string(1, static_cast<char>(rank))), rank);
  for (const std::string& token : more) out += fmt::format("{} {}\n", to_base64(token), rank++);
  return out;
}

std::string refusal_of(const std::string& name, const std::string& text) {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/" + name, text);
  try {
    make_tokenizer(fs, "/m/" + name);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("vocabularies by rank agree with the reference implementations", "[data]") {
  RealFileSystem disk;
  std::istringstream lines(disk.read_text(
      testing::source_directory() + "/tests/data/tokenizer/golden/ranks.jsonl", 1 << 24));
  std::vector<std::string> texts;
  std::string ranks;
  size_t kinds = 0;
  for (std::string line; std::getline(lines, line);) {
    rapidjson::Document document;
    REQUIRE_FALSE(document.Parse(line.c_str()).HasParseError());
    if (document.HasMember("texts")) {
      for (const auto& hex : document["texts"].GetArray())
        texts.push_back(from_hex(hex.GetString()));
      ranks = document["ranks"].GetString();
      continue;
    }
    ++kinds;
    MemoryFileSystem fs;
    fs.make_directory("/m");
    fs.write_text_atomically("/m/tokenizer_config.json", document["config"].GetString());
    fs.write_text_atomically("/m/config.json", document["model"].GetString());
    const std::string pattern = document["pattern"].GetString();
    fs.write_text_atomically(std::string("/m/") + document["file"].GetString(),
                             pattern.empty() ? ranks : tekken_of(ranks, pattern));
    const auto tokenizer = make_tokenizer(fs, "/m");
    REQUIRE(document["digests"].Size() == texts.size());
    for (rapidjson::SizeType i = 0; i < texts.size(); ++i) {
      INFO(document["name"].GetString() << ": '" << texts[i] << "'");
      const Ids ids = tokenizer->encode(texts[i]);
      CHECK(digest_of(ids) == document["digests"][i].GetString());
      if (document["name"] != "qwen") CHECK(tokenizer->decode(ids) == texts[i]);
    }
  }
  CHECK(kinds == 6);
  CHECK(texts.size() > 80);
}

TEST_CASE("neighbours are joined by the rank of what comes of them", "[data]") {
  Vocabulary vocabulary{{"a", 0}, {"b", 1}, {"c", 2}, {"bc", 3}, {"abc", 4}, {"ab", 5}};
  const BytePairEncoder encoder({.joins = BytePairForm::Joins::kByUnion}, vocabulary);
  const auto ids_of = [&](std::string_view text) {
    Ids ids;
    encoder.encode(text, ids);
    return ids;
  };
  CHECK(ids_of("abc") == Ids{4});  // by way of "bc"
  CHECK(ids_of("ab") == Ids{5});
  CHECK(ids_of("abab") == Ids{5, 5});
  CHECK(ids_of("aabcc") == Ids{0, 4, 2});
  const BytePairEncoder other({.joins = BytePairForm::Joins::kByUnion},
                              {{"a", 0}, {"aa", 1}, {"aaa", 2}});
  Ids ids;
  other.encode("aaaaa", ids);
  CHECK(ids == Ids{1, 2});  // of equal ranks the leftmost first, then "aa" with what is left
}

TEST_CASE("what is beside ranks says how they are read", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  fs.write_text_atomically("/m/tokenizer.model", ranks_of({"th", "the", " the"}));
  CHECK_THROWS_AS(make_tokenizer(fs, "/m"), Unsupported);
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Contains("nothing known says how texts are cut"));
  fs.write_text_atomically("/m/config.json", R"({"model_type": "llama"})");
  const auto llama = make_tokenizer(fs, "/m");
  CHECK(llama->vocab_size() == 259 + 256);
  CHECK(llama->encode("the the") == Ids{257, 258});
  CHECK(llama->encode("<|begin_of_text|>th<|reserved_special_token_250|>") == Ids{259, 256, 514});
  CHECK(read_frame(fs, "/m", *llama).before == Ids{259});
  CHECK(eos_token(fs, "/m") == "<|end_of_text|>");
  CHECK(special_tokens(fs, "/m").at("<|eot_id|>") == 268);
  fs.write_text_atomically("/m/tokenizer_config.json",
                           R"({"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<e>",)"
                           R"( "bos_token": "<b>", "added_tokens_decoder":)"
                           R"( {"259": {"content": "<b>"}, "260": {"content": "<e>"}}})");
  CHECK(make_tokenizer(fs, "/m")->vocab_size() == 261);
  CHECK(make_tokenizer(fs, "/m")->encode("<e>the") == Ids{260, 257});
  CHECK(eos_token(fs, "/m") == "<e>");
  fs.write_text_atomically("/m/tokenizer_config.json",
                           R"({"tokenizer_class": "LlamaTokenizer", "eos_token": "<none>"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Contains("its eos_token \"<none>\""));
  fs.write_text_atomically("/m/tokenizer_config.json",
                           R"({"tokenizer_class": "LlamaTokenizer", "bos_token": ""})");
  const auto without_bos = make_tokenizer(fs, "/m");
  CHECK(without_bos->encode("the") == Ids{257});
  CHECK(read_frame(fs, "/m", *without_bos).before.empty());
  fs.write_text_atomically("/m/tokenizer_config.json",
                           R"({"tokenizer_class": "Phi3SmallTokenizer"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Contains("of \"Phi3SmallTokenizer\""));

  fs.make_directory("/o");
  fs.write_text_atomically("/o/cl100k_base.tiktoken", ranks_of({"th"}));
  const auto named = make_tokenizer(fs, "/o");
  CHECK(named->encode("th<|endoftext|>") == Ids{256, 100257});
  CHECK(tokenizer_files(fs, "/o/cl100k_base.tiktoken") ==
        std::map<std::string, std::string>{{"cl100k_base.tiktoken", "/o/cl100k_base.tiktoken"}});
  fs.make_directory("/q");
  fs.write_text_atomically("/q/qwen.tiktoken", ranks_of({"th"}));
  fs.write_text_atomically("/q/tokenizer_config.json", R"({"tokenizer_class": "QWenTokenizer"})");
  CHECK(make_tokenizer(fs, "/q")->encode("e\u0301<|im_start|>") == Ids{0xc3, 0xa9, 258});
  CHECK(make_tokenizer(fs, "/q")->decode(Ids{464}) == "<|extra_204|>");
}

TEST_CASE("ranks that are none are refused", "[data]") {
  const auto with = [](const std::string& text) { return refusal_of("r50k_base.tiktoken", text); };
  CHECK(with("YQ== 0\n\nYg== 1\r\nYWI= 2") == "taken");
  CHECK_THAT(with("YQ== 0\nYg==\n"),
             Contains("r50k_base.tiktoken: no ranks of tokens: line 2 is not a token in base64"));
  for (const char* line : {"Y* 1", "YQ== x", "YQ== -1", "YQ== 1x", "YQ==  1", " 1", "Y 1"}) {
    CAPTURE(line);
    CHECK_THAT(with(line), Contains("no ranks of tokens"));
  }
  CHECK_THAT(with("YQ== 0\nYQ== 1\n"), Contains("token 1 is the same as token 0"));
  CHECK_THAT(with("YQ== 0\nYg== 0\n"), Contains("token id 0 is given to two tokens"));
  CHECK_THAT(with(to_base64(std::string(4097, 'a')) + " 0\n"), Contains("has 4097 bytes"));
  CHECK_THAT(with("YQ== 99999999999\n"), Contains("line 1 has rank 99999999999, which is out of"));
  CHECK_THAT(with("YQ== 2147483648\n"), Contains("expected 0 to 2147483647"));
  CHECK_THAT(with("YQ== 9223372036854775807\n"), Contains("line 1 has rank 9223372036854775807"));
  CHECK_THAT(with("YQ== 2147483647\n"), Contains("token id 2147483647 is out of range"));
}

TEST_CASE("a tekken.json that is none is refused", "[data]") {
  const auto with = [](const std::string& text) { return refusal_of("tekken.json", text); };
  const auto file = [](const std::string& config, const std::string& rest) {
    return fmt::format(R"({{"config":{{"pattern":"."{}}},{}}})", config, rest);
  };
  const std::string sizes =
      R"(,"default_vocab_size":4,"default_num_special_tokens":3,"version":"v3")";
  const std::string vocab = R"("vocab":[{"rank":0,"token_bytes":"YQ==","token_str":"a"}])";
  const auto specials = [](const std::string& list) { return ",\"special_tokens\":" + list; };
  const std::string three = R"([{"rank":0,"token_str":"<x>"},{"rank":1,"token_str":"<s>"},)"
                            R"({"rank":2,"token_str":"</s>"}])";
  CHECK(with(file(sizes, vocab + specials(three))) == "taken");
  CHECK(with(file(sizes, vocab + specials("[]"))) == "taken");  // <SPECIAL_0> and so on
  CHECK_THAT(with(file(sizes, vocab)), Contains("20 special tokens"));
  CHECK_THAT(with("{}"), Contains("tekken.json: no tekken.json: \"config\" is not an object"));
  CHECK_THAT(with(file("", vocab)), Contains("\"default_num_special_tokens\" is not an integer"));
  CHECK_THAT(with(file(R"(,"default_vocab_size":2,"default_num_special_tokens":3)", vocab)),
             Contains("default_vocab_size is 2"));
  CHECK_THAT(with(file(R"(,"default_vocab_size":9,"default_num_special_tokens":3)", vocab)),
             Contains("lists 1 tokens, and default_vocab_size wants 6"));
  CHECK_THAT(with(file(R"(,"default_vocab_size":4,"default_num_special_tokens":-3)", vocab)),
             Contains("\"default_num_special_tokens\" is -3"));
  CHECK_THAT(with(file(R"(,"default_vocab_size":4,"default_num_special_tokens":3,"version":"v11")",
                       vocab)),
             Contains("which a file of version v11 has to list"));
  for (const char* item : {"5", "{}", R"({"rank":1,"token_bytes":"YQ=="})",
                           R"({"rank":0,"token_bytes":"*"})", R"({"rank":0,"token_bytes":5})"}) {
    CAPTURE(item);
    CHECK_THAT(with(file(sizes, fmt::format("\"vocab\":[{}]", item) + specials(three))),
               Contains("token 0 of \"vocab\" is no object of that rank"));
  }
  CHECK_THAT(with(file(sizes, vocab + specials("[5]"))), Contains("a special token is no object"));
  CHECK_THAT(with(file(sizes, vocab + specials(R"([{"rank":1,"token_str":"x"}])"))),
             Contains("special token 0 has another rank"));
}

TEST_CASE("base64 is read and written", "[data]") {
  for (const std::string& bytes : {std::string(), std::string("a"), std::string("ab"),
                                   std::string("abc"), std::string("\0\xff\x10", 3)}) {
    CHECK(from_base64(to_base64(bytes)) == bytes);
  }
  CHECK(to_base64("ab") == "YWI=");
  CHECK(from_base64("YWI") == "ab");
  CHECK_FALSE(from_base64("Y"));
  CHECK_FALSE(from_base64("YW=I"));
  CHECK_FALSE(from_base64("Y I="));
}
