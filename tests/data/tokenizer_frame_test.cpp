// What tokenizers put around a text: each kind of post-processor, the flags that overrule it, and
// what is refused.
#include "data/tokenizer/tokenizer_frame.h"

#include "tests/support/catch.h"
#include "tests/support/memory_file_system.h"

using namespace ds;

namespace {

TokenizerFrame frame_of(const std::string& processor, const std::string& config = "") {
  MemoryFileSystem files;
  const std::string tokenizer = fmt::format(
      R"({{"added_tokens":[{{"id":3,"content":"<s>"}},{{"id":4,"content":"</s>"}}],
          "post_processor":{},
          "pre_tokenizer":{{"type":"ByteLevel","add_prefix_space":false}},
          "model":{{"type":"BPE","vocab":{{"a":0,"b":1,"ab":2}},"merges":["a b"]}}}})",
      processor);
  files.create("/tokenizer.json")->write(0, std::as_bytes(std::span(tokenizer)));
  if (!config.empty())
    files.create("/tokenizer_config.json")->write(0, std::as_bytes(std::span(config)));
  return read_frame(files, "/", *make_tokenizer(files, "/"));
}

using Ids = std::vector<int32_t>;

const std::string kBos =
    R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>","type_id":0}},
        {"Sequence":{"id":"A","type_id":0}}],
        "pair":[],"special_tokens":{"<s>":{"id":"<s>","ids":[3],"tokens":["<s>"]}}})";

}  // namespace

TEST_CASE("a template puts its tokens before and after the text", "[data]") {
  CHECK(frame_of("null").before.empty());
  CHECK(frame_of(kBos).before == Ids{3});
  CHECK(frame_of(kBos).after.empty());
  const TokenizerFrame both = frame_of(
      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>"}},
          {"Sequence":{"id":"A"}},{"SpecialToken":{"id":"</s>"}}],
          "special_tokens":{"<s>":{"ids":[3]},"</s>":{"ids":[4]}}})");
  CHECK(both.before == Ids{3});
  CHECK(both.after == Ids{4});
}

TEST_CASE("other post-processors", "[data]") {
  CHECK(frame_of(R"({"type":"ByteLevel"})").before.empty());
  CHECK(frame_of(
            fmt::format(R"({{"type":"Sequence","processors":[{{"type":"ByteLevel"}},{}]}})", kBos))
            .before == Ids{3});
  const TokenizerFrame roberta =
      frame_of(R"({"type":"RobertaProcessing","sep":["</s>",4],"cls":["<s>",3]})");
  CHECK(roberta.before == Ids{3});
  CHECK(roberta.after == Ids{4});
}

TEST_CASE("tokenizer_config.json overrules the template", "[data]") {
  const std::string names = R"("bos_token": {"content": "<s>"}, "eos_token": "</s>")";
  CHECK(frame_of("null", "{\"add_bos_token\": true, " + names + "}").before == Ids{3});
  CHECK(frame_of("null", "{\"add_eos_token\": true, " + names + "}").after == Ids{4});
  CHECK(frame_of(kBos, "{\"add_bos_token\": true, " + names + "}").before == Ids{3});  // once
  CHECK(frame_of(kBos, "{\"add_bos_token\": false, " + names + "}").before.empty());
  CHECK(frame_of(kBos, "{" + names + "}").before == Ids{3});
}

TEST_CASE("templates that mean nothing are refused", "[data]") {
  CHECK_THROWS_AS(frame_of(R"({"type":"TemplateProcessing"})"), DataError);
  CHECK_THROWS_AS(frame_of(R"({"type":"TemplateProcessing","single":[]})"), DataError);
  CHECK_THROWS_AS(frame_of(
                      R"({"type":"TemplateProcessing","single":[{"Sequence":{"id":"A"}},
              {"Sequence":{"id":"A"}}]})"),
                  DataError);
  CHECK_THROWS_AS(frame_of(
                      R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<x>"}},
              {"Sequence":{"id":"A"}}]})"),
                  DataError);
  CHECK_THROWS_AS(frame_of(R"({"type":"RobertaProcessing","sep":["</s>",4]})"), DataError);
  CHECK_THROWS_AS(frame_of(R"({"type":"RobertaProcessing","sep":["</s>",99],"cls":["<s>",3]})"),
                  DataError);  // no token
  CHECK_THROWS_AS(frame_of(R"({"type":"Sequence"})"), DataError);
  CHECK_THROWS_AS(frame_of(R"({"type":"Unigram"})"), Unsupported);
  CHECK_THROWS_AS(frame_of("null", R"({"add_bos_token": true})"), DataError);
  CHECK_THROWS_AS(frame_of("null", R"({"add_bos_token": true, "bos_token": "ba"})"), DataError);
}
