// What a tokenizer.json may say: each part of it, in the spellings that there are, and what is said
// of parts that are wrong.
#include <fmt/format.h>

#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;

namespace {

using Ids = std::vector<int32_t>;

// Letters, a space (written U+0120), digits and two merges.
const std::string kVocabulary =
    "{\"a\":0,\"b\":1,\"ab\":2,\"\xC4\xA0\":3,\"\xC4\xA0"
    "a\":4,"
    "\"1\":5,\"2\":6,\".\":7,\"12\":8}";
const std::string kMerges = "[\"a b\",\"\xC4\xA0 a\",\"1 2\"]";
const std::string kPlain = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";

std::unique_ptr<Tokenizer> loaded(const std::string& text) {
  MemoryFileSystem fs;
  fs.create("/tokenizer.json")->write(0, std::as_bytes(std::span(text)));
  return load_tokenizer(fs, "/tokenizer.json");
}

std::string file_of(const std::string& pre_tokenizer, const std::string& more = "",
                    const std::string& model_more = "") {
  return fmt::format(
      R"({{"model":{{"type":"BPE","vocab":{},"merges":{}{}}},"pre_tokenizer":{}{}}})", kVocabulary,
      kMerges, model_more, pre_tokenizer, more);
}

std::string refusal_of(const std::string& text) {
  try {
    loaded(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

std::string sequence(const std::string& steps) {
  return R"({"type":"Sequence","pretokenizers":[)" + steps + "]}";
}

std::string split(const std::string& pattern, const std::string& behavior,
                  const std::string& more = "") {
  return fmt::format(R"({{"type":"Split","pattern":{},"behavior":"{}"{}}})", pattern, behavior,
                     more);
}

}  // namespace

TEST_CASE("a prefix space is put before the text unless the file says otherwise", "[data]") {
  const auto with = [](const char* prefix) {
    return loaded(file_of(fmt::format(R"({{"type":"ByteLevel","use_regex":false{}}})", prefix)));
  };
  CHECK(with("")->encode("aa") == Ids{4, 0});
  CHECK(with("")->encode(" aa") == Ids{4, 0});
  CHECK(with(R"(,"add_prefix_space":true)")->encode("aa") == Ids{4, 0});
  CHECK(with(R"(,"add_prefix_space":false)")->encode("aa") == Ids{0, 0});
}

TEST_CASE("the pattern of GPT-2 cuts words from digits unless the file turns it off", "[data]") {
  CHECK(loaded(file_of(R"({"type":"ByteLevel","add_prefix_space":false})"))->encode("ab12.a a") ==
        Ids{2, 8, 7, 0, 4});
}

TEST_CASE("digits are cut one by one or as runs", "[data]") {
  const auto with = [](const char* individual) {
    return loaded(file_of(sequence(
        fmt::format(R"({{"type":"Digits","individual_digits":{}}},)", individual) + kPlain)));
  };
  CHECK(with("true")->encode("12") == Ids{5, 6});
  CHECK(with("false")->encode("a12") == Ids{0, 8});
  CHECK(loaded(file_of(sequence(R"({"type":"Digits"},)" + kPlain)))->encode("12") == Ids{8});
}

TEST_CASE("a split's pattern is a regular expression or a plain text", "[data]") {
  const auto encode = [](const std::string& step, const std::string& text) {
    return loaded(file_of(sequence(step + "," + kPlain)))->encode(text);
  };
  CHECK(encode(split(R"({"Regex":"."})", "Isolated"), "ab") == Ids{0, 1});
  CHECK(encode(split(R"({"String":"."})", "Isolated"), "ab.ab") == Ids{2, 7, 2});
  CHECK(encode(split(R"({"String":"."})", "Removed"), "ab.ab") == Ids{2, 2});
  CHECK(encode(split(R"({"Regex":"[ab]+"})", "Removed", R"(,"invert":true)"), "ab.a") == Ids{2, 0});
  CHECK(encode(split(R"({"Regex":"b"})", "Isolated", R"(,"invert":false)"), "ab") == Ids{0, 1});
  CHECK(encode(split(R"({"String":"a|b"})", "Removed"), "ab") == Ids{2});
}

TEST_CASE("merges are pairs in one text or in a list", "[data]") {
  const auto with = [](const std::string& merges) {
    return fmt::format(R"({{"model":{{"vocab":{},"merges":{}}},"pre_tokenizer":{}}})", kVocabulary,
                       merges, kPlain);
  };
  CHECK(loaded(with(R"([["a","b"]])"))->encode("ab12") == Ids{2, 5, 6});
  CHECK(loaded(with(R"(["1 2",["a","b"]])"))->encode("ab12") == Ids{2, 8});
  CHECK(loaded(with("[]"))->encode("ab") == Ids{0, 1});
  CHECK_THAT(refusal_of(with(R"([["a","b"], "ab"])")),
             Catch::Contains("merge 1 is not a pair of tokens"));
  CHECK_THAT(refusal_of(with("[\"a \"]")), Catch::Contains("merge 0 is not a pair"));
  CHECK_THAT(refusal_of(with("[\" b\"]")), Catch::Contains("merge 0 is not a pair"));
  CHECK_THAT(refusal_of(with("[[\"a\",1]]")), Catch::Contains("merge 0 is not a pair"));
  CHECK_THAT(refusal_of(with("[\"a \xE6\xBC\xA2\"]")),
             Catch::Contains("a merge needs 'a\xE6\xBC\xA2'"));
  CHECK_THAT(refusal_of(with("[\"b a\"]")),
             Catch::StartsWith("/tokenizer.json: ") && Catch::Contains("'ba', which is not in"));
}

TEST_CASE("tokens are looked up whole where the file ignores merges", "[data]") {
  const auto with = [](const char* value) {
    return loaded(fmt::format(
        R"({{"model":{{"vocab":{{"a":0,"b":1,"ab":2}},"merges":[],"ignore_merges":{}}},)"
        R"("pre_tokenizer":{}}})",
        value, kPlain));
  };
  CHECK(with("true")->encode("ab") == Ids{2});
  CHECK(with("false")->encode("ab") == Ids{0, 1});
  CHECK(with("null")->encode("ab") == Ids{0, 1});
}

TEST_CASE("bytes that are no printable characters are written as GPT-2 writes them", "[data]") {
  // U+0120 is the space, U+010A the line break, U+0100 NUL; U+00E9 is the byte 0xE9 itself.
  const auto tokenizer = loaded(
      "{\"model\":{\"vocab\":{\"\xC4\xA0\":0,\"\xC4\x8A\":1,\"\xC4\x80\":2,\"\xC3\x83\":3,"
      "\"\xC2\xA9\":4},\"merges\":[]},\"pre_tokenizer\":" +
      kPlain + "}");
  CHECK(tokenizer->encode(std::string(" \n\0\xC3\xA9", 5)) == Ids{0, 1, 2, 3, 4});
  CHECK(tokenizer->decode(Ids{3, 4, 0}) == "\xC3\xA9 ");
  CHECK_THROWS_WITH(tokenizer->encode("x"), Catch::Contains("'x' is not in the vocabulary"));
}

TEST_CASE("added tokens come first, may strip, and are given back", "[data]") {
  const auto tokenizer = loaded(
      file_of(kPlain, R"(,"added_tokens":[{"id":20,"content":"<s>","lstrip":true,"rstrip":true},)"
                      R"({"id":21,"content":"<s>b"},{"id":2,"content":"ab"}])"));
  CHECK(tokenizer->encode("a <s> b") == Ids{0, 20, 1});
  CHECK(tokenizer->encode("<s>ba") == Ids{21, 0});
  CHECK(tokenizer->encode("aab") == Ids{0, 2});
  CHECK(tokenizer->decode(Ids{20, 0, 21}) == "<s>a<s>b");
  CHECK(tokenizer->vocab_size() == 22);
  CHECK(tokenizer->knows(21));
  CHECK_FALSE(tokenizer->knows(19));
}

TEST_CASE("an added token that is looked for in normalized text is shown so", "[data]") {
  const auto tokenizer =
      loaded(file_of(kPlain, R"(,"normalizer":{"type":"Lowercase"},"added_tokens":[)"
                             R"({"id":9,"content":"<X>","normalized":true},)"
                             R"({"id":10,"content":"<Y>","normalized":false,"special":true}])"));
  CHECK(tokenizer->encode("<x><Y>a") == Ids{9, 10, 0});
  CHECK(tokenizer->decode(Ids{9, 10, 0}) == "<x><Y>a");
}

TEST_CASE("a sign goes before the first word where nothing before it was taken away", "[data]") {
  const auto ids = [](const std::string& normalizer, std::string_view text) {
    return loaded(
               R"({"model":{"type":"WordLevel","vocab":{"_a":0,"a":1,"?":2},"unk_token":"?"},)"
               R"("pre_tokenizer":{"type":"Metaspace","replacement":"_","prepend_scheme":"first"},)"
               R"("normalizer":)" +
               normalizer + "}")
        ->encode(text);
  };
  CHECK(ids("null", "a a") == Ids{0, 0});
  CHECK(ids(R"({"type":"Strip"})", "a") == Ids{0});
  CHECK(ids(R"({"type":"Strip"})", " a") == Ids{1});
  CHECK(ids(R"({"type":"StripAccents"})", "\u0301a") == Ids{1});
  CHECK(ids(R"({"type":"Replace","pattern":{"Regex":" +"},"content":" "})", "  a") == Ids{0});
}

TEST_CASE("runs of a script are pieces, by the tables of the reference", "[data]") {
  const auto ids = [](std::string_view text) {
    return loaded(R"({"model":{"type":"WordLevel","vocab":{"a ":0,"\u30abー漢":1,"?":2,)"
                  R"("b\ud83e\udd7a":3," ":4,"\ud83d\ude42":5,"c":6},"unk_token":"?"},)"
                  R"("pre_tokenizer":{"type":"UnicodeScripts"}})")
        ->encode(text);
  };
  CHECK(ids("a \u30abー漢") == Ids{0, 1});
  CHECK(ids("b\U0001f97a") == Ids{3});     // Unicode 11: of any script there
  CHECK(ids("c\U0001f642") == Ids{6, 5});  // Unicode 7
  CHECK(ids(" c") == Ids{6});              // what is before the first run is no piece
  CHECK(ids("  ").empty());
}

TEST_CASE("added tokens that cannot be are refused", "[data]") {
  const auto with = [](const std::string& list) {
    return refusal_of(file_of(kPlain, ",\"added_tokens\":" + list));
  };
  CHECK(with("null") == "taken");
  CHECK(with("[]") == "taken");
  CHECK(with("{}") == "/tokenizer.json: \"added_tokens\" of the file is no list");
  for (const char* item : {R"({"id":20})", R"({"content":"x"})", R"({"id":"20","content":"x"})",
                           R"({"id":20,"content":""})", "5", "null"}) {
    CAPTURE(item);
    CHECK(with(fmt::format("[{}]", item)) ==
          "/tokenizer.json: an added token lacks its id or content");
  }
  CHECK_THAT(with(R"([{"id":0,"content":"x"}])"), Catch::Contains("token id 0 is given to two"));
  CHECK_THAT(with(R"([{"id":-1,"content":"x"}])"), Catch::Contains("token id -1 is out of range"));
  CHECK_THAT(with(R"([{"id":16777216,"content":"x"}])"),
             Catch::Contains("out of range, expected 0 to 16777215"));
  CHECK(with(R"([{"id":20,"content":"x","single_word":true}])") == "taken");
  CHECK_THAT(with(R"([{"id":20,"content":5}])"),
             Catch::Contains("\"content\" of added_tokens is no text"));
  CHECK_THAT(with(R"([{"id":20,"content":"x","lstrip":"yes"}])"),
             Catch::Contains("\"lstrip\" is not true or false"));
}

TEST_CASE("steps that mean nothing are refused with their defect", "[data]") {
  const auto with = [](const std::string& step) { return refusal_of(file_of(step)); };
  CHECK_THAT(with(R"({"type":"Sequence"})"), Catch::Contains("Sequence has no \"pretokenizers\""));
  CHECK_THAT(with(R"({"type":"Sequence","pretokenizers":{}})"),
             Catch::Contains("\"pretokenizers\" of Sequence is no list"));
  CHECK_THAT(with(R"({"type":"Split","behavior":"Isolated"})"),
             Catch::Contains("Split has no \"pattern\""));
  CHECK_THAT(with(split("{}", "Isolated")), Catch::Contains("pattern has no \"String\""));
  CHECK_THAT(with(split(R"({"Regex":5})", "Isolated")),
             Catch::Contains("\"Regex\" of pattern is no text"));
  CHECK_THAT(with(split(R"({"String":""})", "Isolated")),
             Catch::Contains("pattern of Split is empty"));
  CHECK_THAT(with(R"({"type":"Split","pattern":{"String":"a"}})"),
             Catch::Contains("Split has no \"behavior\""));
  CHECK_THAT(with(split(R"({"String":"a"})", "Sideways")),
             Catch::Contains("the behavior Sideways of Split"));
  CHECK_THAT(with(R"({"type":"Metaspace","replacement":"ab"})"),
             Catch::Contains("\"replacement\" of Metaspace is not one character"));
  CHECK_THAT(with(R"({"type":"FixedLength","length":0})"), Catch::Contains("FixedLength is 0"));
  CHECK_THAT(with(R"({"type":"FixedLength","length":-1})"),
             Catch::Contains("\"length\" of FixedLength is no count"));
  CHECK_THAT(with(R"({"type":"ByteLevel","use_regex":1})"),
             Catch::Contains("\"use_regex\" is not true or false"));
  CHECK_THAT(with("{}"), Catch::Contains("the pre-tokenizer pre_tokenizer is not supported"));
  CHECK_THAT(with("5"), Catch::Contains("the pre-tokenizer pre_tokenizer is not supported"));
}

TEST_CASE("what is null in a file is as good as not there", "[data]") {
  const std::string nulls =
      R"(,"normalizer":null,"truncation":null,"padding":null,"decoder":null,"added_tokens":null)";
  const std::string in_model =
      R"(,"dropout":null,"continuing_subword_prefix":null,"end_of_word_suffix":"",)"
      R"("byte_fallback":false,"unk_token":null)";
  CHECK(loaded(file_of(kPlain, nulls, in_model))->encode("ab") == Ids{2});
  CHECK(loaded(file_of("null"))->encode("ab") == Ids{2});  // characters, without any cut
}

TEST_CASE("of a key that stands twice in a file the last value counts", "[data]") {
  const auto ids = [](const std::string& keys) {
    return loaded(R"({"model":{"type":"WordLevel","vocab":{"a":0,"ab":1},"unk_token":"a"},)"
                  R"("pre_tokenizer":{"type":"FixedLength",)" +
                  keys + "}}")
        ->encode("ab");
  };
  CHECK(ids(R"("length":1,"length":2)") == Ids{1});
  CHECK(ids(R"("length":2,"length":1)") == Ids{0, 0});
}

TEST_CASE("half of a surrogate pair is no text", "[data]") {
  CHECK_THAT(refusal_of(file_of(kPlain, R"(,"normalizer":{"type":"Prepend","prepend":"\udc00"})")),
             Catch::Contains("half of a surrogate pair"));
  CHECK_THAT(refusal_of(file_of(kPlain, R"(,"added_tokens":[{"id":20,"content":"\udc00"}])")),
             Catch::Contains("half of a surrogate pair"));
}

TEST_CASE("a dropout of nothing is none", "[data]") {
  CHECK(refusal_of(file_of(kPlain, "", R"(,"dropout":0.0)")) == "taken");
  CHECK(refusal_of(file_of(kPlain, "", R"(,"dropout":0)")) == "taken");
  CHECK_THAT(refusal_of(file_of(kPlain, "", R"(,"dropout":"x")")), Catch::Contains("dropout"));
}

TEST_CASE("normalizers that mean nothing are refused with their defect", "[data]") {
  const auto with = [](const std::string& part) {
    return refusal_of(file_of(kPlain, ",\"normalizer\":" + part));
  };
  CHECK(with(R"({"type":"NFC"})") == "taken");
  CHECK_THAT(with(R"({"type":"Sequence"})"), Catch::Contains("Sequence has no \"normalizers\""));
  CHECK_THAT(with(R"({"type":"Prepend"})"), Catch::Contains("Prepend has no \"prepend\""));
  CHECK_THAT(with(R"({"type":"Replace","content":"a"})"),
             Catch::Contains("Replace has no \"pattern\""));
  CHECK_THAT(with(R"({"type":"Precompiled","precompiled_charsmap":"*"})"),
             Catch::Contains("is no base64"));
  CHECK_THAT(with(R"({"type":"Precompiled","precompiled_charsmap":"AAAA"})"),
             Catch::Contains("precompiled_charsmap: too short"));
  CHECK(with(R"({"type":"Precompiled","precompiled_charsmap":null})") == "taken");
  CHECK_THAT(with("{}"), Catch::Contains("the normalizer normalizer is not supported"));
}

TEST_CASE("vocabularies of before tokenizer.json are read by the class beside them", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  const auto put = [&](const std::string& name, const std::string& text) {
    fs.write_text_atomically("/m/" + name, text);
  };
  put("vocab.txt", "[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\n[MASK]\r\nun\r\n##do\r\n");
  CHECK(make_tokenizer(fs, "/m")->encode("UNDO [MASK] x") == Ids{5, 6, 4, 1});
  CHECK(read_frame(fs, "/m", *make_tokenizer(fs, "/m")).before == Ids{2});
  CHECK(read_frame(fs, "/m", *make_tokenizer(fs, "/m")).after == Ids{3});
  CHECK(special_tokens(fs, "/m").at("[MASK]") == 4);
  put("tokenizer_config.json", R"({"do_lower_case": false, "tokenizer_class": "BertTokenizer"})");
  CHECK(make_tokenizer(fs, "/m")->encode("UNDO undo") == Ids{1, 5, 6});
  put("tokenizer_config.json", R"({"tokenizer_class": "EsmTokenizer"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"),
                    Catch::Contains("what the tokenizer of \"EsmTokenizer\" does"));
  put("tokenizer_config.json", "{}");
  put("vocab.txt", "a\nb\n");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"),
                    Catch::Contains("2 lines, and none of them is the unknown token \"[UNK]\""));

  put("vocab.txt", "[UNK]\nun\n");
  put("config.json", R"({"model_type": "roformer"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Catch::Contains("of \"roformer\""));
  put("config.json", R"({"model_type": "bert"})");
  CHECK(make_tokenizer(fs, "/m")->encode("un") == Ids{1});
  put("tokenizer_config.json", R"({"mask_token": "<M>"})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/m"), Catch::Contains("its mask_token \"<M>\""));
  CHECK(tokenizer_files(fs, "/m/vocab.txt").at("vocab.txt") == "/m/vocab.txt");
  CHECK_FALSE(tokenizer_files(fs, "/m/vocab.txt").contains("tokenizer.json"));

  fs.make_directory("/b");
  fs.write_text_atomically("/b/vocab.json", R"({"a": 0, "b": 1, "ab": 2, "<s>": 3, "</s>": 4})");
  CHECK_THROWS_WITH(make_tokenizer(fs, "/b"), Catch::Contains("merges.txt, which belongs to it"));
  fs.write_text_atomically("/b/merges.txt", "#version: 0.2\na b\n");
  CHECK(make_tokenizer(fs, "/b")->encode("aba") == Ids{2, 0});
  CHECK(read_frame(fs, "/b", *make_tokenizer(fs, "/b")).before.empty());
  fs.write_text_atomically("/b/tokenizer_config.json",
                           R"({"tokenizer_class": "RobertaTokenizer",)"
                           R"( "added_tokens_decoder":)"
                           R"( {"9": {"content": "<x>", "rstrip": true}}})");
  CHECK(make_tokenizer(fs, "/b")->encode("ab<x>  <s>") == Ids{2, 9, 3});
  CHECK(read_frame(fs, "/b", *make_tokenizer(fs, "/b")).after == Ids{4});
}

TEST_CASE("the roles of tokens are read from either file beside the tokenizer", "[data]") {
  MemoryFileSystem fs;
  fs.make_directory("/m");
  const auto put = [&](const std::string& name, const std::string& text) {
    fs.write_text_atomically("/m/" + name, text);
  };
  put("tokenizer.json", "{}");
  CHECK_FALSE(token_of_role(fs, "/m", "pad_token").has_value());
  put("special_tokens_map.json", R"({"pad_token": "<pad>", "bos_token": {"content": "<s>"}})");
  CHECK(token_of_role(fs, "/m", "pad_token") == "<pad>");
  CHECK(token_of_role(fs, "/m", "bos_token") == "<s>");
  put("tokenizer_config.json", R"({"pad_token": "<P>", "bos_token": null})");
  CHECK(token_of_role(fs, "/m", "pad_token") == "<P>");
  CHECK(token_of_role(fs, "/m", "bos_token") == "<s>");  // null says nothing
  CHECK_FALSE(token_of_role(fs, "/m", "eos_token").has_value());
  put("tokenizer_config.json", R"({"pad_token": {"lstrip": true}})");
  CHECK_THROWS_WITH(token_of_role(fs, "/m", "pad_token"),
                    "/m/tokenizer_config.json: pad_token is no token");
}

TEST_CASE("the byte tokenizer gives every string of bytes back", "[data]") {
  const ByteTokenizer tokenizer;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  const Ids ids = tokenizer.encode(all);
  REQUIRE(ids.size() == 256);
  for (int32_t id = 0; id < 256; ++id) CHECK(ids[static_cast<size_t>(id)] == id);
  CHECK((tokenizer.decode(ids) == all));
  CHECK(tokenizer.knows(0));
  CHECK_FALSE(tokenizer.knows(256));
}
