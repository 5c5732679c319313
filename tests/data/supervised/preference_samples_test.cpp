// Pairs as samples: two sequences of which each is an example of its own.
#include "core/status/error.h"
#include "data/supervised/supervised_samples.h"
#include "data/tokenizer/tokenizer.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Catch::Contains;
using Numbers = std::vector<int32_t>;
using Notes = std::vector<std::string>;

const std::string kPath = "/p.jsonl";

// Bytes of a prompt and of completions that end with "$".
std::string pair_of(size_t prompt, const std::string& chosen, const std::string& rejected) {
  return fmt::format("{{\"prompt\": \"{}\", \"chosen\": \"{}\", \"rejected\": \"{}\"}}\n",
                     std::string(prompt, 'p'), chosen, rejected);
}

struct Opened {
  std::shared_ptr<const TokenSource> source;
  SampleSet set;
};
Opened open(const std::string& text, const SupervisedForm& form) {
  MemoryFileSystem files;
  files.write_text_atomically(kPath, text);
  const ByteTokenizer bytes;
  const std::vector<std::string> paths{kPath};
  auto source = open_preferences(files, paths, *preference_pairs(bytes, {.end = '$'}), form);
  return {source, SampleSet({source}, numbers_of_supervised(form.length.tokens), INT32_MAX)};
}

struct Row {
  std::string text;
  Numbers targets, positions, ranges, sides;
};
Row row_of(std::span<const int32_t> numbers) {
  const size_t length = numbers.size() / 2;
  Numbers tokens(length);
  Row row{"", Numbers(length), Numbers(length), Numbers(2 * length), Numbers(length)};
  write_supervised(numbers, {.tokens = tokens,
                             .targets = row.targets,
                             .positions = row.positions,
                             .key_ranges = row.ranges,
                             .sides = row.sides});
  for (const int32_t token : tokens) row.text += token == 0 ? '.' : static_cast<char>(token);
  return row;
}
Row row_of(const Opened& opened, int64_t sample) {
  Numbers numbers(static_cast<size_t>(opened.set.sequence_length()) + 1);
  opened.set.read(sample, numbers);
  numbers.pop_back();
  return row_of(numbers);
}

TEST_CASE("a sample is a pair, of which each sequence sees itself alone", "[data]") {
  const Opened got = open(pair_of(2, "a", "bc") + pair_of(1, "", "d"), {.length = 11});
  REQUIRE(got.set.size() == 2);
  const Row row = row_of(got, 0);
  CHECK(row.text == "ppa$ppbc$..");
  CHECK(row.targets == Numbers{-1, 'a', '$', -1, -1, 'b', 'c', '$', -1, -1, -1});
  CHECK(row.sides == Numbers{0, 1, 1, 0, 0, -1, -1, -1, 0, 0, 0});
  CHECK(row.positions == Numbers{0, 1, 2, 3, 0, 1, 2, 3, 4, 0, 0});
  CHECK(row.ranges == Numbers{0, 4, 0, 4, 0, 4, 0, 4, 4, 9, 4, 9, 4, 9, 4, 9, 4, 9, 9, 10, 10, 11});
  CHECK(row_of(got, 1).text == "p$pd$......");
  CHECK(row_of(got, 1).sides == Numbers{1, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0});
  CHECK(got.source->documents() == 2);
  CHECK(got.source->notes().empty());
  CHECK(got.source->locate(got.set.sequence_length()) == "/p.jsonl:2");
}

TEST_CASE("a sequence of a long pair keeps half of the sample, or what the other leaves",
          "[data]") {
  const auto cut = [](int64_t length, const std::string& chosen, const std::string& rejected) {
    return row_of(open(pair_of(1, chosen, rejected), {.length = length}), 0).text;
  };
  CHECK(cut(8, "abcdef", "uvwxyz") == "pabcpuvw");
  CHECK(cut(9, "abcdef", "uvwxyz") == "pabcpuvw.");
  CHECK(cut(8, "ab", "uvwxyz") == "pab$puvw");
  CHECK(cut(8, "a", "uvwxyz") == "pa$puvwx");
  CHECK(cut(8, "abcdef", "u") == "pabcdpu$");
  CHECK(cut(8, "ab", "uv") == "pab$puv$");
  // A model may have fewer positions than a sample has tokens.
  const Opened few = open(pair_of(1, "abcdef", "u"), {.length = 12, .longest = 5});
  CHECK(row_of(few, 0).text == "pabcdpu$....");
  CHECK(few.source->notes().size() == 1);
  const std::string text = pair_of(1, "a", "b") + pair_of(1, "abcdef", "u") + pair_of(1, "a", "c") +
                           pair_of(1, "abcdefg", "u");
  CHECK(open(text, {.length = 8}).source->notes() ==
        Notes{"2 of 4 have two sequences that are together longer than data.sequence_length, 8 "
              "tokens, and lose the end of one or both, the first at /p.jsonl:2"});
  const Opened dropped = open(text, {.length = 8, .too_long = LongExamples::kDrop});
  REQUIRE(dropped.set.size() == 2);
  CHECK(row_of(dropped, 1).text == "pa$pc$..");
  CHECK(dropped.source->locate(dropped.set.sequence_length()) == "/p.jsonl:3");
  CHECK(dropped.source->notes() ==
        Notes{"2 of 4 have two sequences that are together longer than data.sequence_length, 8 "
              "tokens, and are left out, the first at /p.jsonl:2"});
}

TEST_CASE("a pair that teaches nothing on either side is left out", "[data]") {
  // The prompt fills half of a sample.
  const std::string text = pair_of(1, "a", "b") + pair_of(4, "abc", "u") + pair_of(4, "a", "uvw");
  const Opened got = open(text, {.length = 8});
  REQUIRE(got.set.size() == 1);
  CHECK(got.source->documents() == 1);
  const std::string idle =
      "2 of 3 have a sequence without a token that is learnt and are left out, the first at "
      "/p.jsonl:2";
  REQUIRE(got.source->notes().size() == 2);
  CHECK(got.source->notes().back() == idle);
  CHECK_THROWS_WITH(open(pair_of(4, "abc", "uvw"), {.length = 8}),
                    Contains("/p.jsonl: 1 of 1 have two sequences") &&
                        Contains("1 of 1 have a sequence without a token"));
  CHECK_THROWS_AS(open(pair_of(4, "abc", "uvw"), {.length = 8}), DataError);
  CHECK_THROWS_WITH(open("\n", {.length = 8}), Contains("there is no record in it"));
  CHECK_THROWS_WITH(open(pair_of(1, "a", "b") + pair_of(1, "a", "a"), {.length = 8}),
                    Contains("/p.jsonl:2: \"chosen\" and \"rejected\" are equal"));
}

TEST_CASE("pairs are neither packed nor split", "[data]") {
  const std::string text = pair_of(1, "a", "b");
  CHECK_THROWS_AS(open(text, {.length = 8, .packing_window = 4}), InternalError);
  CHECK_THROWS_AS(open(text, {.length = 8, .too_long = LongExamples::kSplit}), InternalError);
}

TEST_CASE("any part of the numbers of pairs is read alike", "[data]") {
  const Opened got =
      open(pair_of(1, "abc", "b") + pair_of(2, "", "u") + pair_of(3, "ab", "cdefg"), {.length = 9});
  Numbers whole(static_cast<size_t>(got.source->size()));
  got.source->read(0, whole);
  for (int64_t begin = 0; begin < got.source->size(); begin += 5) {
    Numbers part(static_cast<size_t>(std::min<int64_t>(13, got.source->size() - begin)));
    got.source->read(begin, part);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + begin));
  }
}

TEST_CASE("only the examples of a pair have sides", "[data]") {
  // Three examples of two tokens each: tokens, and twice their positions with what is learnt.
  const Numbers three{1, 2, 3, 4, 5, 6, 0, 3, 0, 3, 0, 3};
  CHECK_THROWS_AS(row_of(three), InternalError);
  Numbers targets(6);
  write_supervised(three, {.tokens = {}, .targets = targets, .positions = {}, .key_ranges = {}});
  CHECK(targets == Numbers{2, -1, 4, -1, 6, -1});
  const Numbers two{1, 2, 3, 4, 5, 6, 0, 3, 0, 3, 0, 0};
  CHECK(row_of(two).sides == Numbers{1, 0, -1, 0, 0, 0});
}

TEST_CASE("the prompt of the chosen sequence has targets where somebody asks", "[data]") {
  const Opened got = open(pair_of(3, "a", "bc") + pair_of(1, "", "d"), {.length = 12});
  const auto told = [](std::span<const int32_t> numbers) {
    const size_t length = numbers.size() / 2;
    std::pair<Numbers, Numbers> out{Numbers(length), Numbers(length)};
    write_supervised(numbers, {.tokens = {},
                               .targets = out.first,
                               .positions = {},
                               .key_ranges = {},
                               .sides = out.second,
                               .prompts = SupervisedFields::Prompts::kOfFirst});
    return out;
  };
  const auto of_sample = [&](int64_t sample) {
    Numbers numbers(static_cast<size_t>(got.set.sequence_length()) + 1);
    got.set.read(sample, numbers);
    numbers.pop_back();
    return told(numbers);
  };
  const auto [targets, sides] = of_sample(0);  // "pppa$pppbc$."
  CHECK(targets == Numbers{'p', 'p', 'a', '$', -1, -1, -1, 'b', 'c', '$', -1, -1});
  CHECK(sides == Numbers{2, 2, 1, 1, 0, 0, 0, -1, -1, -1, 0, 0});
  CHECK(of_sample(1).first == Numbers{'$', -1, 'd', '$', -1, -1, -1, -1, -1, -1, -1, -1});
  CHECK(of_sample(1).second == Numbers{1, 0, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0});
  // A sample that the first example fills.
  CHECK(told(Numbers{1, 2, 3, 0, 2, 5}).second == Numbers{2, 1, 0});
}

TEST_CASE("pairs are read from lists and tables, too", "[data]") {
  MemoryFileSystem files;
  files.write_text_atomically("/a.json",
                              "[{\"prompt\": \"p\", \"chosen\": \"a\", \"rejected\": \"b\"},\n"
                              " {\"chosen\": \"xyc\", \"rejected\": \"xyd\"}]\n");
  files.write_text_atomically("/b.csv", "id,rejected,prompt,chosen\n1,b,p,a\n");
  const ByteTokenizer bytes;
  const std::vector<std::string> paths{"/a.json", "/b.csv"};
  const auto reader = preference_pairs(bytes, {.end = '$'});
  const auto source = open_preferences(files, paths, *reader, {.length = 8});
  const Opened got{source, SampleSet({source}, numbers_of_supervised(8), INT32_MAX)};
  REQUIRE(got.set.size() == 3);
  CHECK(row_of(got, 0).text == "pa$pb$..");
  CHECK(row_of(got, 1).text == "xyc$xyd$");
  CHECK(row_of(got, 2).text == row_of(got, 0).text);
  CHECK(source->locate(2 * got.set.sequence_length()) == "/b.csv:2");
}

}  // namespace
}  // namespace ds
