// What tokenize prints for texts and ids, from wherever they come.
#include "rankd/verbs/tokenize.h"

#include <algorithm>
#include <fstream>
#include <random>

#include "core/status/error.h"
#include "data/tokens/dataset.h"
#include "tests/support/catch.h"
#include "tests/support/files/redirected_streams.h"

using namespace ds;
using ds::testing::TemporaryDirectory;

namespace {

TokenizeArgs bytes_of(const std::vector<std::string>& texts) {
  TokenizeArgs args;
  args.tokenizer = "byte";
  args.texts = texts;
  return args;
}

std::string tokenize(const TokenizeArgs& args, const std::string& input = "") {
  int code = -1;
  const std::string out = testing::printed_by([&] { code = run_tokenize(args); }, input).out;
  REQUIRE(code == 0);
  return out;
}

std::string added(const TemporaryDirectory& here, const std::string& name,
                  const std::string& text) {
  const std::filesystem::path path = here.path() / name;
  std::ofstream(path, std::ios::binary) << text;
  return path.string();
}

}  // namespace

TEST_CASE("each text is a line of ids", "[rankd]") {
  CHECK(tokenize(bytes_of({"ab", "", "\n"})) == "97 98\n\n10\n");
  TokenizeArgs args = bytes_of({"ab", ""});
  args.count = true;
  CHECK(tokenize(args) == "2\n0\n");
}

TEST_CASE("ids that were printed decode to the text that they came from", "[rankd]") {
  std::mt19937 random(9);
  for (int round = 0; round < 20; ++round) {
    std::string text;
    for (auto i = random() % 30; i > 0; --i) text += static_cast<char>(' ' + random() % 95);
    TokenizeArgs back = bytes_of({tokenize(bytes_of({text}))});
    back.decode = true;
    REQUIRE(tokenize(back) == text + "\n");
  }
}

TEST_CASE("ids are read from lists as people and programs write them", "[rankd]") {
  TokenizeArgs args = bytes_of({"[97, 98]", "97,98", " 97\t98\n", "[]"});
  args.decode = true;
  CHECK(tokenize(args) == "ab\nab\nab\n\n");
  args.texts = {"255 97"};  // no character
  CHECK(tokenize(args) ==
        "\xEF\xBF\xBD"
        "a\n");
}

TEST_CASE("what is no id is named", "[rankd]") {
  for (const char* bad : {"97 x", "9.5", "97;98", "99999999999", "-"}) {
    INFO(bad);
    TokenizeArgs args = bytes_of({bad});
    args.decode = true;
    CHECK_THROWS_AS(tokenize(args), DataError);
    CHECK_THROWS_WITH(tokenize(args), Catch::Contains("is no token id"));
  }
  for (const char* bad : {"256", "-1"}) {  // a number, and no token
    INFO(bad);
    TokenizeArgs args = bytes_of({bad});
    args.decode = true;
    CHECK_THROWS_AS(tokenize(args), Error);
  }
}

TEST_CASE("texts come from arguments, then files; else from standard input", "[rankd]") {
  const TemporaryDirectory here;
  TokenizeArgs args = bytes_of({"a"});
  args.files = {added(here, "b", "b\n")};
  CHECK(tokenize(args, "c") == "97\n98 10\n");  // a file is a text as it is
  CHECK(tokenize(bytes_of({}), "c\n") == "99 10\n");
  args = bytes_of({});
  args.lines = true;
  CHECK(tokenize(args, "c\r\n\nd") == "99\n100\n");
  args.files = {(here.path() / "missing").string()};
  CHECK_THROWS_AS(tokenize(args), InputMissing);
}

TEST_CASE("for programs a text is an object with its ids and tokens", "[rankd]") {
  TokenizeArgs args = bytes_of({"a\"\xff"});
  args.json = true;
  CHECK(tokenize(args) == R"({"count":3,"ids":[97,34,255],"tokens":["a","\"","�"]})"
                          "\n");
  args.count = true;
  CHECK(tokenize(args) == "{\"count\":3}\n");
  args = bytes_of({"97 98"});
  args.decode = args.json = true;
  CHECK(tokenize(args) == R"({"text":"ab","count":2,"ids":[97,98],"tokens":["a","b"]})"
                          "\n");
}

TEST_CASE("what a tokenizer puts around texts is shown only when it is asked for", "[rankd]") {
  const TemporaryDirectory here;
  added(here, "tokenizer.json", R"({
    "added_tokens": [{"id": 2, "content": "<s>", "special": true, "single_word": false,
                      "lstrip": false, "rstrip": false, "normalized": false}],
    "normalizer": null, "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
    "decoder": {"type": "ByteLevel"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                 {"Sequence": {"id": "A", "type_id": 0}}],
      "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [2], "tokens": ["<s>"]}}},
    "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "<s>": 2}, "merges": []}})");
  TokenizeArgs args = bytes_of({"ab"});
  args.tokenizer = here.path().string();
  CHECK(tokenize(args) == "0 1\n");
  args.special_tokens = true;
  CHECK(tokenize(args) == "2 0 1\n");
}

// Files of token ids ----------------------------------------------------------------------------
namespace {

TokenizeArgs files_of(const TemporaryDirectory& here, std::vector<std::string> files) {
  TokenizeArgs args;
  args.tokenizer = "byte";
  args.files = std::move(files);
  args.to_files.output = here.path() / "ids";
  args.to_files.threads = 2;
  return args;
}

std::string text_of(const TokenSource& source) {
  std::vector<int32_t> ids(static_cast<size_t>(source.size()));
  source.read(0, ids);
  return {ids.begin(), ids.end()};
}

}  // namespace

TEST_CASE("files of token ids hold what training on the texts would read", "[rankd]") {
  const TemporaryDirectory here;
  const std::string lines =
      added(here, "a.jsonl", "{\"text\": \"one\"}\n\n{\"text\": \"\"}\n{\"text\": \"two\"}\n");
  const std::string plain = added(here, "b.txt", "three\r\n\nfour");
  RealFileSystem files;
  const std::vector<std::string> paths{lines, plain};
  const auto trained = open_token_sources(files, paths, ByteTokenizer());
  REQUIRE(trained.size() == 1);

  TokenizeArgs args = files_of(here, paths);
  CHECK(Catch::StartsWith(here.path() / "ids.bin, ").match(tokenize(args)));
  const auto indexed = open_indexed(*args.to_files.output);
  CHECK(text_of(*indexed) == text_of(*trained[0]));
  CHECK(text_of(*indexed) == "one\n\ntwo\nthree\r\n\nfour");
  CHECK(indexed->documents() == 4);

  args.to_files.format = "llmc";
  args.to_files.shard_tokens = 10;
  CHECK(Catch::Contains("ids_000002.bin (3 files): 4 documents, 21 tokens").match(tokenize(args)));
  CHECK(text_of(*open_llmc_shard(files, here.path() / "ids_000001.bin")) == "hree\r\n\nfou");
}

TEST_CASE("with --lines the lines of a text are documents, and empty ones are told", "[rankd]") {
  const TemporaryDirectory here;
  TokenizeArgs args = files_of(here, {added(here, "a.txt",
                                            "\xEF\xBB\xBF"
                                            "one\r\n\n two\n")});
  args.lines = true;
  args.to_files.separator = "<>";
  tokenize(args);
  CHECK(text_of(*open_indexed(*args.to_files.output)) == "one<> two<>");
  args.lines = false;
  args.files = {added(here, "b.jsonl", "{\"body\": \"\"}\n{\"body\": \"x\"}\n")};
  args.to_files.field = "body";
  args.to_files.separator = "";
  args.to_files.force = true;
  args.json = true;
  const std::string told = tokenize(args);
  CHECK(Catch::Contains("\"documents\":1,\"empty_documents\":1,\"tokens\":1,").match(told));
  CHECK(text_of(*open_indexed(*args.to_files.output)) == "x");
}

TEST_CASE("what cannot become token ids is refused, and no file stays", "[rankd]") {
  const TemporaryDirectory here;
  const auto names = [&] {
    std::vector<std::string> out;
    for (const DirectoryEntry& entry : RealFileSystem().list(here.path().string())) {
      if (entry.name.starts_with("ids")) out.push_back(entry.name);
    }
    return out;
  };
  const std::string good = added(here, "good.txt", "text");
  const std::string bad = added(here, "bad.jsonl", "{\"text\": \"a\"}\n{\"text\": 3}\n");
  const std::string blank = added(here, "blank.jsonl", "{\"text\": \"\"}\n");
  CHECK_THROWS_WITH(run_tokenize(files_of(here, {good, bad})),
                    bad + ":2: the field \"text\" is no string");
  CHECK(names().empty());
  TokenizeArgs empty = files_of(here, {blank});
  empty.to_files.separator = "";
  CHECK_THROWS_WITH(run_tokenize(empty), blank + ": there is no text in it");
  CHECK_THROWS_AS(run_tokenize(files_of(here, {here.path() / "none.txt"})), InputMissing);
  CHECK(names().empty());

  tokenize(files_of(here, {good}));
  CHECK_THROWS_WITH(run_tokenize(files_of(here, {good})), Catch::Contains("--force replaces it"));
  TokenizeArgs again = files_of(here, {here.path() / "ids.bin"});
  again.to_files.output = here.path() / "more";
  CHECK_THROWS_WITH(run_tokenize(again), Catch::Contains("holds token ids already"));
}

// Conversations ---------------------------------------------------------------------------------
TEST_CASE("conversations are texts that the chat template makes", "[rankd]") {
  const TemporaryDirectory here;
  TokenizeArgs args;
  args.tokenizer = "byte";
  args.chat.is_chat = true;
  args.chat.chat_template = added(
      here, "turns.jinja",
      "{% for m in messages %}{{ m.role[0] }}:{% if m.role == 'assistant' %}"
      "{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %};"
      "{% endfor %}{% if add_generation_prompt %}a:{% endif %}");
  const std::string asked = R"([{"role": "user", "content": "\u00fc"}])";
  const std::string answered =
      R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "yz"}]})";
  args.texts = {asked};
  args.generation_prompt = true;
  CHECK(tokenize(args) == "117 58 195 188 59 97 58\n");
  args.render = true;
  CHECK(tokenize(args) == "u:\u00fc;a:\n");
  args.render = args.generation_prompt = false;
  args.json = true;
  args.texts = {answered};
  CHECK(Catch::StartsWith(R"({"text":"u:x;a:yz;","generation":[[6,8]],"count":9,"ids":[117,)")
            .match(tokenize(args)));

  args.json = false;
  args.render = args.lines = true;
  args.texts = {};
  args.files = {added(here, "chats.jsonl", asked + "\n\n" + answered + "\n")};
  CHECK(tokenize(args) == "u:\u00fc;\nu:x;a:yz;\n");
  args.files.push_back(added(here, "bad.jsonl", asked + "\n\n[{}]\n"));
  CHECK_THROWS_WITH(run_tokenize(args),
                    Catch::StartsWith(args.files[1] + ":3: message 1 has no \"role\""));
  args.lines = false;
  args.files = {added(here, "bad.json", "[{}]")};
  CHECK_THROWS_WITH(run_tokenize(args), Catch::StartsWith(args.files[0] + ": message 1 has no"));
  args.files = {};
  args.texts = {asked, "[{}]"};
  CHECK_THROWS_WITH(run_tokenize(args), Catch::StartsWith("conversation 2: message 1 has no"));
}
