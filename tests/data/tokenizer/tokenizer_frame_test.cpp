// What tokenizers put around a text: each kind of post-processor, the flags that overrule it, and
// what is refused.
#include "data/tokenizer/tokenizer_frame.h"

#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

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

namespace {

std::string refusal_of(const std::string& processor, const std::string& config = "") {
  try {
    frame_of(processor, config);
  } catch (const Error& error) {
    return error.what();
  }
  return "taken";
}

}  // namespace

TEST_CASE("of processors in a row the later ones stand outside", "[data]") {
  const auto around = [](const char* before, const char* after) {
    return fmt::format(
        R"({{"type":"TemplateProcessing","single":[{{"SpecialToken":{{"id":"{0}"}}}},
            {{"Sequence":{{"id":"A"}}}},{{"SpecialToken":{{"id":"{1}"}}}}],
            "special_tokens":{{"<s>":{{"ids":[3]}},"</s>":{{"ids":[4]}},"ab":{{"ids":[2]}},
            "two":{{"ids":[0,1]}}}}}})",
        before, after);
  };
  const TokenizerFrame frame = frame_of(fmt::format(R"({{"type":"Sequence","processors":[{},{}]}})",
                                                    around("ab", "two"), around("<s>", "</s>")));
  CHECK(frame.before == Ids{3, 2});
  CHECK(frame.after == Ids{0, 1, 4});
  CHECK(frame_of(R"({"type":"Sequence","processors":[]})").before.empty());
  const TokenizerFrame bert =
      frame_of(R"({"type":"BertProcessing","sep":["</s>",4],"cls":["<s>",3]})");
  CHECK(bert.before == Ids{3});
  CHECK(bert.after == Ids{4});
}

TEST_CASE("what is wrong with a template is said with the file's name", "[data]") {
  const auto piece = [](const std::string& single, const std::string& tokens = "{}") {
    return refusal_of(fmt::format(
        R"({{"type":"TemplateProcessing","single":[{}],"special_tokens":{}}})", single, tokens));
  };
  const std::string start = "/tokenizer.json: post_processor: ";
  const std::string text = R"({"Sequence":{"id":"A"}})";
  CHECK(piece("") == start + "a template leaves out the text");
  CHECK(piece(text + "," + text) == start + "a template repeats the text");
  CHECK(piece("{}") == start + "a template has a piece that is neither Sequence nor SpecialToken");
  CHECK(piece("5") == start + "a template has a piece that is neither Sequence nor SpecialToken");
  const std::string special = R"({"SpecialToken":{"id":"<s>"}},)" + text;
  CHECK(piece(special) == start + "special token \"<s>\" has no ids");
  CHECK(piece(special, R"({"<s>":{"ids":3}})") == start + "special token \"<s>\" has no ids");
  CHECK(piece(special, R"({"<s>":{"ids":[-3]}})") ==
        start + "special token \"<s>\" has an id that is none");
  CHECK(piece(special, R"({"<s>":{"ids":["3"]}})") ==
        start + "special token \"<s>\" has an id that is none");
  CHECK(piece(special, R"({"<s>":{"ids":[77]}})") == start + "id 77 is no token");
  CHECK(piece(special, R"({"<s>":{"ids":[]}})") == "taken");
}

TEST_CASE("processors that are none are refused by their defect", "[data]") {
  CHECK_THAT(refusal_of("5"), Catch::Contains("post_processor  is not supported"));
  CHECK_THAT(refusal_of(R"({"type":"Metaspace"})"),
             Catch::Contains("post_processor Metaspace is not supported; supported are"));
  CHECK_THAT(refusal_of(R"({"type":"BertProcessing","cls":["<s>",3],"sep":["</s>"]})"),
             Catch::Contains("\"sep\" is no token with its id"));
  CHECK_THAT(refusal_of(R"({"type":"BertProcessing","cls":["<s>","3"],"sep":["</s>",4]})"),
             Catch::Contains("\"cls\" is no token with its id"));
  std::string deep = R"({"type":"ByteLevel"})";
  for (int i = 0; i < 8; ++i)
    deep = fmt::format(R"({{"type":"Sequence","processors":[{}]}})", deep);
  CHECK(refusal_of(deep) == "taken");
  CHECK_THAT(refusal_of(R"({"type":"Sequence","processors":[)" + deep + "]}"),
             Catch::Contains("a Sequence has no processors"));
}

TEST_CASE("flags of the configuration that are no booleans say nothing", "[data]") {
  CHECK(frame_of(kBos, R"({"add_bos_token": null})").before == Ids{3});
  CHECK(frame_of(kBos, R"({"add_bos_token": "no"})").before == Ids{3});
  CHECK(refusal_of("null", R"({"add_eos_token": true, "eos_token": "ab"})") == "taken");
  CHECK_THAT(refusal_of("null", R"({"add_eos_token": true, "eos_token": "aba"})"),
             Catch::Contains("/tokenizer_config.json: add_eos_token is set, but eos_token is "
                             "\"aba\", which is 2 tokens of the tokenizer, expected one"));
  CHECK_THAT(refusal_of("null", R"({"add_eos_token": true, "eos_token": {"content": ""}})"),
             Catch::Contains("which is 0 tokens"));
  CHECK_THROWS_AS(frame_of("null", "[]"), DataError);
}
