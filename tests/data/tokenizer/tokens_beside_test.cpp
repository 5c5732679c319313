// What tokenizer_config.json and added_tokens.json say of a tokenizer.json's added tokens, and keys
// that stand twice in any of them: as transformers 5.24 reads such folders.
#include "data/tokenizer/forms/tokens_beside.h"

#include "core/status/error.h"
#include "data/chat_format.h"
#include "data/tokenizer/special_tokens.h"
#include "data/tokenizer/tokenizer_frame.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using Catch::Contains;

namespace {

using Ids = std::vector<int32_t>;

const std::string kTokens = R"("added_tokens":[{"id":1,"content":"<s>","special":true},)"
                            R"({"id":9,"content":"<x>","special":true}])";
const std::string kModel =
    R"("model":{"type":"BPE","unk_token":"<unk>",)"
    R"("vocab":{"<unk>":0,"<s>":1,"</s>":2,"a":3,"b":4,"ab":5," ":6},"merges":["a b"]})";

class Folder {
 public:
  explicit Folder(const std::string& config,
                  const std::string& tokenizer = "{" + kTokens + "," + kModel + "}") {
    put("tokenizer.json", tokenizer);
    if (!config.empty()) put("tokenizer_config.json", config);
  }
  void put(const std::string& name, const std::string& text) {
    files_.create("/" + name)->write(0, std::as_bytes(std::span(text)));
  }
  MemoryFileSystem& files() { return files_; }
  std::unique_ptr<Tokenizer> load() { return make_tokenizer(files_, "/"); }
  Ids encode(const std::string& text) { return load()->encode(text); }

 private:
  MemoryFileSystem files_;
};

std::string decoder_of(const std::string& id, const std::string& token,
                       const std::string& flags = R"("special":true)") {
  return fmt::format(R"({{"added_tokens_decoder":{{"{}":{{"content":"{}",{}}}}}}})", id, token,
                     flags);
}

}  // namespace

TEST_CASE("how an added token is looked for is said last by the configuration", "[data]") {
  CHECK(Folder("").encode("a <x> b") == Ids{3, 6, 9, 6, 4});
  const std::string strips = R"("special":true,"lstrip":true,"rstrip":true)";
  CHECK(Folder(decoder_of("9", "<x>", strips)).encode("a <x> b") == Ids{3, 9, 4});
  CHECK(Folder(decoder_of("9", "<x>", R"("special":true,"single_word":true)")).encode("a<x>") ==
        Ids{3, 0, 0, 0});
  // The id is the tokenizer's own.
  CHECK(Folder(decoder_of("12", "<x>", strips)).encode("a <x> b") == Ids{3, 9, 4});
  CHECK(special_tokens(Folder(decoder_of("9", "<x>", R"("special":false)")).files(), "/") ==
        std::map<std::string, int32_t>{{"<s>", 1}});
}

TEST_CASE("tokens that only the files beside a tokenizer list are looked for", "[data]") {
  CHECK(Folder(decoder_of("12", "<y>")).encode("a<y>") == Ids{3, 12});
  CHECK(Folder(decoder_of("12", "<y>")).load()->vocab_size() == 13);
  CHECK(Folder(decoder_of("5", "ab", R"("lstrip":true)")).encode("a  ab") == Ids{3, 5});
  Folder apart("");
  apart.put("added_tokens.json", R"({"<z>": 11})");
  CHECK(apart.encode("<z>b") == Ids{11, 4});
  CHECK_THROWS_WITH(Folder(decoder_of("9", "<y>")).load(),
                    Contains(R"(id 9 is "<x>" there, and "<y>" in the files beside it)"));
  CHECK_THROWS_WITH(Folder(decoder_of("3", "<y>")).load(), Contains(R"(id 3 is "a" there)"));
  CHECK_THROWS_AS(Folder(decoder_of("3", "<y>")).load(), DataError);
}

TEST_CASE("tokens in roles are looked for where the vocabulary has them, and else noted",
          "[data]") {
  CHECK(Folder("").encode("a</s>") == Ids{3, 0, 0, 0, 0});
  CHECK(Folder(R"({"eos_token":{"content":"</s>"}})").encode("a</s>") == Ids{3, 2});
  CHECK(Folder(R"({"additional_special_tokens":["</s>"]})").encode("a</s>") == Ids{3, 2});
  CHECK(Folder(R"({"extra_special_tokens":{"end":"</s>"}})").encode("a</s>") == Ids{3, 2});
  const auto tokenizer = Folder(R"({"pad_token":"[PAD]","bos_token":"<s>"})").load();
  REQUIRE(tokenizer->notes().size() == 1);
  CHECK_THAT(tokenizer->notes()[0], Contains(R"(not looked for in texts: "[PAD]", which)"));
  CHECK(tokenizer->vocab_size() == 10);
  CHECK(Folder(R"({"bos_token":"<s>"})").load()->notes().empty());
}

TEST_CASE("a tokenizer that nothing new is said of stays the text that it is", "[data]") {
  MemoryFileSystem files;
  const std::string text = "{" + kTokens + "," + kModel + "}\n";
  CHECK(with_tokens_beside(files, "/tokenizer.json", text) == text);
  const std::string config = decoder_of("9", "<x>");
  files.create("/tokenizer_config.json")->write(0, std::as_bytes(std::span(config)));
  CHECK(with_tokens_beside(files, "/tokenizer.json", text) == text);
  CHECK(with_tokens_beside(files, "/tokenizer.json", "{}")
            .starts_with(R"({"added_tokens":[{"id":9)"));
  // A list of scores has ids by its order.
  const std::string pieces = R"({"model":{"type":"Unigram","vocab":[["a",-1],["<x>",-2]]}})";
  CHECK_THAT(with_tokens_beside(files, "/tokenizer.json", pieces),
             Contains(R"("id":1,"content":"<x>")"));
  // A file with a name of its own is taken as it stands.
  Folder apart(decoder_of("12", "<y>"));
  apart.put("mine.json", "{" + kTokens + "," + kModel + "}");
  CHECK(make_tokenizer(apart.files(), "/mine.json")->vocab_size() == 10);
  CHECK(tokenizer_digest(apart.files(), "/mine.json") != tokenizer_digest(apart.files(), "/"));
}

TEST_CASE("special tokens that are to be read letter by letter are refused", "[data]") {
  Folder split(R"({"split_special_tokens": true})");
  CHECK_THROWS_AS(split.load(), Unsupported);
  CHECK_THROWS_WITH(split.load(),
                    "/tokenizer_config.json: split_special_tokens asks that special tokens in "
                    "texts are read letter by letter, which is not supported; remove the key, and "
                    "they are read as what they are");
  Folder together(R"({"split_special_tokens": false})");
  CHECK_NOTHROW(together.load());
}

TEST_CASE("of a key that stands twice in the files of a tokenizer the last one counts", "[data]") {
  const std::string twice =
      R"("bos_token":"a","bos_token":"<s>","eos_token":{"content":"a","content":"b"})";
  Folder folder(
      "{" + twice +
          R"(,"chat_template":"x","chat_template":"y","add_bos_token":false,"add_bos_token":true})",
      "{" + kTokens + "," + kModel +
          R"(,"added_tokens":[],"added_tokens":[{"id":1,"id":2,"content":"</s>","special":true}],)"
          R"("post_processor":null})");
  CHECK(token_of_role(folder.files(), "/", "bos_token") == "<s>");
  CHECK(token_of_role(folder.files(), "/", "eos_token") == "b");
  CHECK(read_frame(folder.files(), "/", *folder.load()).before == Ids{1});
  CHECK(folder.encode("</s>") == Ids{2});
  CHECK(special_tokens(folder.files(), "/").at("</s>") == 2);
  const ChatFormat chat = ChatFormat::read(folder.files(), "/", "");
  CHECK(chat.render(R"([{"role":"user","content":"1"}])", "chat", false).text == "y");
  Folder named(
      R"({"chat_template":[{"name":"default","template":"1"},{"name":"default","template":"2"}]})");
  CHECK(ChatFormat::read(named.files(), "/", "")
            .render(R"({"messages":[], "messages":[{"role":"a","role":"user","content":"1"}]})",
                    "chat", false)
            .text == "2");
}
