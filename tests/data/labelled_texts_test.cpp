#include "data/labelled_texts.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Numbers = std::vector<int32_t>;

// Bytes between 1 and 2, and pairs with a 3 in between.
LabelledForm form_of(int64_t length) {
  return {.text = "text",
          .label = "label",
          .labels = {.names = {"no", "yes"}},
          .length = length,
          .frame = {.before = {1}, .after = {2}},
          .pair_frame = {.before = {1}, .between = {3}, .after = {2}, .has_segments = true}};
}

Numbers sample_of(const std::string& record, const LabelledForm& form) {
  MemoryFileSystem files;
  files.write_text_atomically("/a.jsonl", record + "\n");
  const std::vector<std::string> paths{"/a.jsonl"};
  const auto texts = open_labelled_texts(files, paths, ByteTokenizer(), form);
  const SampleSet set({texts}, numbers_of_labelled(form.length.tokens, form.labels.values()),
                      INT32_MAX);
  REQUIRE(set.size() == 1);
  Numbers numbers(static_cast<size_t>(set.sequence_length()) + 1);
  set.read(0, numbers);
  numbers.pop_back();
  return numbers;
}

TEST_CASE("a text of a class is framed, and padded or cut", "[data]") {
  CHECK(sample_of(R"({"text": "ab", "label": "yes"})", form_of(6)) ==
        Numbers{1, 'a', 'b', 2, 0, 0, 4, 4, 1});
  CHECK(sample_of(R"({"text": "abcdefg", "label": 0})", form_of(6)) ==
        Numbers{1, 'a', 'b', 'c', 'd', 2, 6, 6, 0});
}

TEST_CASE("a text of values has them behind its other numbers", "[data]") {
  LabelledForm form = form_of(6);
  form.labels = {.problem = ClassifierProblem::kNumbers, .names = {"a", "b"}};
  const Numbers numbers = sample_of(R"({"text": "ab", "label": [-2.5, 1e-3]})", form);
  const LabelledSample sample = labelled_sample(numbers, 2);
  CHECK(sample.tokens.size() == 6);
  CHECK(sample.size == 4);
  CHECK(sample.label == 0);
  CHECK(sample.value(0) == -2.5F);
  CHECK(sample.value(1) == 1e-3F);
  for (const int32_t number : numbers) CHECK(number >= 0);
  form.labels = {.problem = ClassifierProblem::kSeveralClasses, .names = {"no", "yes"}};
  const Numbers classes = sample_of(R"({"text": "ab", "label": ["yes"]})", form);
  CHECK(labelled_sample(classes, 2).value(0) == 0);
  CHECK(labelled_sample(classes, 2).value(1) == 1);
  CHECK_THROWS_WITH(sample_of(R"({"text": "ab", "label": 0.5})", form),
                    Catch::Contains("/a.jsonl:1: the class \"0.5\""));
}

TEST_CASE("padding at the end of a text does not count where the last token is scored", "[data]") {
  LabelledForm form = form_of(6);
  form.padding = 2;
  CHECK(sample_of(R"({"text": "ab", "label": "yes"})", form) ==
        Numbers{1, 'a', 'b', 0, 0, 0, 3, 3, 1});
  form.padding = 'b';
  CHECK(sample_of(R"({"text": "abb", "label": "yes"})", form) ==
        Numbers{1, 'a', 'b', 'b', 2, 0, 5, 5, 1});
  form.frame = {};
  CHECK(sample_of(R"({"text": "abb", "label": "yes"})", form) ==
        Numbers{'a', 0, 0, 0, 0, 0, 1, 1, 1});
  CHECK(sample_of(R"({"text": "bb", "label": "yes"})", form) ==
        Numbers{'b', 0, 0, 0, 0, 0, 1, 1, 1});
}

TEST_CASE("texts that lose their end are told, and files that are not there by their names",
          "[data]") {
  MemoryFileSystem files;
  files.write_text_atomically("/a.tsv", "text\tother\tlabel\nab\tc\tyes\nabcd\te\tno\n");
  const std::vector<std::string> paths{"/a.tsv"}, gone{"/gone"};
  const auto notes = [&](const LabelledForm& form) {
    return open_labelled_texts(files, paths, ByteTokenizer(), form)->notes();
  };
  CHECK(notes(form_of(6)).empty());
  const std::vector<std::string> told{
      "1 of 2 are longer than data.sequence_length, 5 tokens, and lose their end, the first at "
      "/a.tsv:3"};
  CHECK(notes(form_of(5)) == told);
  LabelledForm pair = form_of(6);
  pair.text_pair = "other";
  CHECK(notes(pair).size() == 1);
  CHECK(notes(form_of(8)).empty());
  CHECK_THROWS_AS(open_labelled_texts(files, gone, ByteTokenizer(), form_of(6)), InputMissing);
}

TEST_CASE("of a pair of texts the longer one is cut first", "[data]") {
  LabelledForm form = form_of(8);
  form.text_pair = "other";
  CHECK(sample_of(R"({"text": "a", "other": "bc", "label": 1})", form) ==
        Numbers{1, 'a', 3, 'b', 'c', 2, 0, 0, 6, 3, 1});
  CHECK(sample_of(R"({"text": "abcdef", "other": "xyz", "label": 1})", form) ==
        Numbers{1, 'a', 'b', 'c', 3, 'x', 'y', 2, 8, 5, 1});
  form.pair_frame.has_segments = false;
  CHECK(sample_of(R"({"text": "a", "other": "bc", "label": 1})", form)[9] == 6);
}

TEST_CASE("two texts share their room as the tokenizers library shares it", "[data]") {
  struct Case {
    int64_t first, second, room, kept_first, kept_second;
  };
  for (const Case& c :
       {Case{3, 4, 7, 3, 4}, Case{10, 10, 9, 4, 5}, Case{10, 2, 9, 7, 2}, Case{2, 10, 9, 2, 7},
        Case{5, 10, 9, 4, 5}, Case{10, 5, 9, 5, 4}, Case{0, 10, 4, 0, 4}}) {
    CAPTURE(c.first, c.second, c.room);
    const KeptOfPair kept = cut_longest(c.first, c.second, c.room);
    CHECK(kept.first == c.kept_first);
    CHECK(kept.second == c.kept_second);
  }
}

TEST_CASE("texts without a class of the model are refused", "[data]") {
  const LabelledForm form = form_of(6);
  CHECK_THROWS_WITH(
      sample_of(R"({"text": "a", "label": "perhaps"})", form),
      Catch::Contains("/a.jsonl:1: the class \"perhaps\" is none of the model's, which "
                      "are \"no\", \"yes\" (or 0 to 1)"));
  CHECK_THROWS_WITH(sample_of(R"({"text": "a", "label": -1})", form), Catch::Contains("\"-1\""));
  // 0 is none of two classes that are called 1 and 2, and 1 is the first.
  LabelledForm numerals = form_of(6);
  numerals.labels.names = {"1", "2"};
  CHECK(sample_of(R"({"text": "a", "label": 1})", numerals)[8] == 0);
  CHECK_THROWS_WITH(sample_of(R"({"text": "a", "label": 0})", numerals),
                    Catch::Contains("are \"1\", \"2\"") && !Catch::Contains("(or 0"));
  CHECK_THROWS_WITH(sample_of(R"({"text": "a", "label": 2})", form), Catch::Contains("\"2\""));
  CHECK_THROWS_WITH(sample_of("", form), Catch::Contains("there is no record in it"));
  LabelledForm bare = form;
  bare.frame = {};
  CHECK_THROWS_WITH(sample_of(R"({"text": "", "label": 1})", bare),
                    Catch::Contains("/a.jsonl:1: there is no token in it"));
  CHECK_THROWS_AS(sample_of(R"({"text": "a", "label": 1})", form_of(2)), ConfigError);
}

}  // namespace
}  // namespace ds
