#include "data/text/sentences.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

const auto kJson = SentenceLayout::kJsonLines;
const auto kColumns = SentenceLayout::kColumns;

// "line: word/tag word/tag", one of each sentence.
std::vector<std::string> sentences_of(std::string_view content, SentenceLayout layout,
                                      const SentenceFields& fields = {}) {
  std::vector<std::string> found;
  for_each_sentence({.content = content, .path = "file", .layout = layout}, fields,
                    [&](const Sentence& sentence) {
                      std::string text = std::to_string(sentence.line) + ":";
                      for (size_t i = 0; i < sentence.words.size(); ++i) {
                        text += fmt::format(" {}/{}", sentence.words[i], sentence.tags[i]);
                      }
                      found.push_back(text);
                    });
  return found;
}

void check_refused(std::string_view content, SentenceLayout layout, const std::string& why) {
  CAPTURE(content);
  CHECK_THROWS_WITH(sentences_of(content, layout), Catch::Contains(why));
  CHECK_THROWS_AS(sentences_of(content, layout), DataError);
}

TEST_CASE("sentences of JSON lines have a list of words and one of tags", "[data]") {
  CHECK(sentences_of("\xEF\xBB\xBF{\"tokens\": [\"a b\", \"c\"], \"ner_tags\": [0, \"B-X\"]}\n\n"
                     "{\"ner_tags\": [], \"tokens\": [], \"id\": 1}\r\n",
                     kJson) == std::vector<std::string>{"1: a b/0 c/B-X", "3:"});
  CHECK(sentences_of(R"({"words": ["a"], "pos": ["N"]})", kJson,
                     {.words = "words", .tags = "pos"}) == std::vector<std::string>{"1: a/N"});
}

TEST_CASE("sentences of columns end at empty lines and at documents", "[data]") {
  CHECK(sentences_of("-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects  VBZ O\r\n\n\nPeter NNP B-PER",
                     kColumns) ==
        std::vector<std::string>{"3: EU/B-ORG rejects/O", "7: Peter/B-PER"});
  CHECK(sentences_of("a\tO\n-DOCSTART-\tO\nb\tO\n", kColumns) ==
        std::vector<std::string>{"1: a/O", "3: b/O"});
  CHECK(sentences_of("two words\t_\tO\n \t \n#\t_\tB-X\n", kColumns) ==
        std::vector<std::string>{"1: two words/O", "3: #/B-X"});
  CHECK(sentences_of("\n\n", kColumns).empty());
}

TEST_CASE("a word knows its line", "[data]") {
  std::vector<int64_t> lines;
  const auto keep = [&](const Sentence& sentence) {
    for (size_t i = 0; i < sentence.words.size(); ++i) lines.push_back(sentence.line_of(i));
  };
  for_each_sentence({.content = "\na O\nb O\n", .path = "f", .layout = kColumns}, {}, keep);
  for_each_sentence({.content = R"({"tokens": ["a", "b"], "ner_tags": [0, 0]})", .path = "f"}, {},
                    keep);
  CHECK(lines == std::vector<int64_t>{2, 3, 1, 1});
}

TEST_CASE("what is no sentence is refused with its line", "[data]") {
  check_refused(R"({"tokens": ["a"], "tags": [0]})", kJson,
                "file:1: there is no field \"ner_tags\" (there are: tokens, tags); "
                "data.token_classification says which fields are read");
  check_refused(R"({"tokens": "a", "ner_tags": [0]})", kJson,
                "file:1: the field \"tokens\" is no list");
  check_refused("\n{\"tokens\": [\"a\", \"b\"], \"ner_tags\": [0]}", kJson,
                "file:2: \"tokens\" has 2 words, and \"ner_tags\" 1");
  check_refused(R"({"tokens": ["a"], "ner_tags": [null]})", kJson,
                "file:1: number 0 of \"ner_tags\" is neither text nor a whole number");
  check_refused(R"({"tokens": ["a"], "ner_tags": [18446744073709551616]})", kJson,
                "number 0 of \"ner_tags\" is a number, but no whole one of 64 bits");
  check_refused("[]", kJson, "file:1: the line is no JSON object");
  check_refused("a O\nb\n", kColumns, "file:2: one column, expected a word and");
  check_refused("a O\nb N O\n", kColumns, "file:2: 3 columns, expected 2, as the first word has");
  check_refused("a\tO\nb\t\n", kColumns, "file:2: the class is empty");
  check_refused("\tO\n", kColumns, "file:1: the word is empty");
  check_refused(std::string_view("a O\n\0 O\n", 8), kColumns, "file:2: a NUL byte");
  check_refused("\xff O\n", kColumns, "file: 1 bytes are no part of UTF-8");
}

TEST_CASE("names say how sentences are written", "[data]") {
  CHECK(sentence_layout("a.jsonl") == kJson);
  CHECK(sentence_layout("a.json.gz") == kJson);
  for (const char* const name :
       {"a.conll", "a.CONLL", "a.bio", "a.iob", "a.iob2", "a.txt.zst", "a.tsv"}) {
    CHECK(sentence_layout(name) == kColumns);
  }
  CHECK_THROWS_AS(sentence_layout("a.csv"), Unsupported);
  CHECK_THROWS_AS(sentence_layout("a"), Unsupported);
}

}  // namespace
}  // namespace ds
