#include "data/tagged_words.h"

#include "core/status/error.h"
#include "data/class_names.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Numbers = std::vector<int32_t>;

// Bytes between 1 and 2.
TaggedForm form_of(int64_t length) {
  return {.labels = {"O", "B-X", "I-X"},
          .length = length,
          .frame = {.before = {1}, .after = {2}},
          .before = BeforeWords::kNothing};
}

std::shared_ptr<const TokenSource> words_of(const std::string& name, const std::string& content,
                                            const TaggedForm& form) {
  MemoryFileSystem files;
  files.write_text_atomically(name, content);
  const std::vector<std::string> paths{name};
  return open_tagged_words(files, paths, ByteTokenizer(), form);
}

std::vector<Numbers> samples_of(const std::string& name, const std::string& content,
                                const TaggedForm& form) {
  const auto words = words_of(name, content, form);
  const SampleSet set({words}, numbers_of_tagged(form.length.tokens), INT32_MAX);
  std::vector<Numbers> samples;
  for (int64_t i = 0; i < set.size(); ++i) {
    Numbers numbers(static_cast<size_t>(set.sequence_length()) + 1);
    set.read(i, numbers);
    numbers.pop_back();
    samples.push_back(numbers);
  }
  return samples;
}
Numbers sample_of(const std::string& record, const TaggedForm& form) {
  const auto samples = samples_of("/a.jsonl", record + "\n", form);
  REQUIRE(samples.size() == 1);
  return samples.front();
}

const std::string kTwo = R"({"tokens": ["ab", "c"], "ner_tags": ["B-X", 0]})";

TEST_CASE("the first token of a word has its class", "[data]") {
  const Numbers numbers = sample_of(kTwo, form_of(7));
  CHECK(numbers == Numbers{1, 'a', 'b', 'c', 2, 0, 0, /**/ 0, 2, 0, 1, 0, 0, 0, /**/ 5});
  const TaggedSample sample = tagged_sample(numbers);
  CHECK(sample.tokens.size() == 7);
  CHECK(sample.tokens[3] == 'c');
  CHECK(sample.classes.size() == 7);
  CHECK(sample.classes[1] == 2);
  CHECK(sample.size == 5);
}

TEST_CASE("a word without letters has no token, also where words have a space before them",
          "[data]") {
  TaggedForm form = form_of(7);
  form.before = BeforeWords::kSpace;
  const std::string record = R"({"tokens": ["a", "", "c"], "ner_tags": ["B-X", 0, 0]})";
  CHECK(sample_of(record, form) == Numbers{1, ' ', 'a', ' ', 'c', 2, 0, 0, 2, 0, 1, 0, 0, 0, 6});
}

TEST_CASE("all tokens of a word may have its class, behind the first one the inner one", "[data]") {
  TaggedForm form = form_of(7);
  form.counted = CountedTokens::kAllOfWord;
  CHECK(sample_of(kTwo, form) == Numbers{1, 'a', 'b', 'c', 2, 0, 0, 0, 2, 3, 1, 0, 0, 0, 5});
  CHECK(inner_classes({"O", "B-X", "I-X", "B-Y", "I-Z"}) == Numbers{0, 2, 2, 3, 4});
}

TEST_CASE("words of tokenizers of bytes may have a space before them", "[data]") {
  TaggedForm form = form_of(7);
  form.before = BeforeWords::kSpace;
  CHECK(sample_of(R"({"tokens": ["a", " b"], "ner_tags": [1, 2]})", form) ==
        Numbers{1, ' ', 'a', ' ', 'b', 2, 0, 0, 2, 0, 3, 0, 0, 0, 6});
}

TEST_CASE("a sentence that is too long loses its end", "[data]") {
  CHECK(sample_of(kTwo, form_of(4)) == Numbers{1, 'a', 'b', 2, 0, 2, 0, 0, 4});
  TaggedForm form = form_of(3);
  form.counted = CountedTokens::kAllOfWord;
  CHECK(sample_of(kTwo, form) == Numbers{1, 'a', 2, 0, 2, 0, 3});
  CHECK_THROWS_AS(sample_of(kTwo, form_of(2)), ConfigError);
  CHECK(words_of("/a.jsonl", kTwo + "\n", form_of(5))->notes().empty());
  CHECK(words_of("/a.conll", "a O\n\nab B-X\nc O\n\nabc O\n", form_of(4))->notes() ==
        std::vector<std::string>{"2 of 3 are longer than data.sequence_length, 4 tokens, and lose "
                                 "their end, the first at /a.conll:3"});
}

TEST_CASE("columns are read as JSON lines are", "[data]") {
  const auto samples = samples_of("/a.conll", "ab B-X\nc O\n\nd I-X\n", form_of(7));
  REQUIRE(samples.size() == 2);
  CHECK(samples[0] == sample_of(kTwo, form_of(7)));
  CHECK(samples[1] == Numbers{1, 'd', 2, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 3});
}

TEST_CASE("an empty sentence is what the tokenizer puts around it", "[data]") {
  const std::string empty = R"({"tokens": [], "ner_tags": []})";
  const auto two = samples_of("/a.jsonl", empty + "\n" + kTwo + "\n", form_of(3));
  CHECK(two.front() == Numbers{1, 2, 0, 0, 0, 0, 2});
  CHECK_THROWS_WITH(sample_of(empty, form_of(3)),
                    "/a.jsonl: no word in it has a token, and there is nothing to learn from");
  TaggedForm bare = form_of(3);
  bare.frame = {};
  CHECK_THROWS_WITH(sample_of(empty, bare), Catch::Contains("/a.jsonl:1: there is no token in it"));
}

TEST_CASE("words without a class of the model are refused, also behind the end", "[data]") {
  CHECK_THROWS_WITH(samples_of("/a.conll", "\nab O\nc B-Y\n", form_of(3)),
                    Catch::Contains("/a.conll:3: the class \"B-Y\" is none of the model's, which "
                                    "are \"O\", \"B-X\", \"I-X\" (or 0 to 2)"));
  CHECK_THROWS_WITH(sample_of(R"({"tokens": ["a"], "ner_tags": [3]})", form_of(3)),
                    Catch::Contains("/a.jsonl:1: the class \"3\""));
  CHECK_THROWS_WITH(samples_of("/a.conll", "\n\n", form_of(3)),
                    Catch::Contains("/a.conll: there is no sentence in it"));
  CHECK_THROWS_WITH(samples_of("/a.conll", "a -100\n", form_of(3)),
                    Catch::StartsWith("/a.conll:1: -100, which transformers gives tokens"));
  CHECK_THROWS_AS(samples_of("/a.csv", "a,O\n", form_of(3)), Unsupported);
  MemoryFileSystem none;
  const std::vector<std::string> gone{"/gone"};
  CHECK_THROWS_AS(open_tagged_words(none, gone, ByteTokenizer(), form_of(3)), InputMissing);
}

TEST_CASE("a name of two classes is of neither, and their numbers are", "[data]") {
  const std::vector<std::string> labels{"X", "Y", "X"};
  CHECK(class_of(labels, "Y", "here") == 1);
  CHECK(class_of(labels, "2", "here") == 2);
  CHECK_THROWS_WITH(class_of(labels, "X", "here"),
                    Catch::StartsWith("here: \"X\" is the name of more than one class"));
}

}  // namespace
}  // namespace ds
