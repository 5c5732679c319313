#include "data/supervised/supervised_samples.h"

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Catch::Contains;
using Numbers = std::vector<int32_t>;

const std::vector<std::string> kPaths{"/a.jsonl", "/b.jsonl"};

// Examples of these lengths, of which all but the first token are learnt.
std::string examples(std::initializer_list<int> lengths, int first = 10) {
  std::string out;
  for (const int length : lengths) {
    out += R"({"input_ids":[)";
    for (int i = 0; i < length; ++i) out += fmt::format("{}{}", i > 0 ? "," : "", first + i);
    out += "]}\n";
    first += 10;
  }
  return out;
}

struct Opened {
  std::shared_ptr<const TokenSource> source;
  SampleSet set;
};
Opened open(const std::string& a, const std::string& b, const SupervisedForm& form) {
  MemoryFileSystem files;
  files.write_text_atomically("/a.jsonl", a);
  files.write_text_atomically("/b.jsonl", b);
  auto source = open_supervised(files, kPaths, *tokenized_examples(1000), form);
  return {source, SampleSet({source}, numbers_of_supervised(form.length.tokens), INT32_MAX)};
}

Numbers numbers_of(const SampleSet& set, int64_t sample) {
  Numbers numbers(static_cast<size_t>(set.sequence_length()) + 1);
  set.read(sample, numbers);
  numbers.pop_back();
  return numbers;
}

struct Row {
  Numbers tokens, targets, positions, ranges;
};
Row row_of(const SampleSet& set, int64_t sample) {
  const Numbers numbers = numbers_of(set, sample);
  const size_t length = numbers.size() / 2;
  Row row{Numbers(length), Numbers(length), Numbers(length), Numbers(2 * length)};
  write_supervised(numbers, {.tokens = row.tokens,
                             .targets = row.targets,
                             .positions = row.positions,
                             .key_ranges = row.ranges});
  return row;
}

TEST_CASE("an example is padded, and its first token is no target", "[data]") {
  const Opened got = open(examples({3}), examples({2}, 50), {.length = 5});
  REQUIRE(got.set.size() == 2);
  const Row row = row_of(got.set, 0);
  CHECK(row.tokens == Numbers{10, 11, 12, 0, 0});
  CHECK(row.targets == Numbers{11, 12, -1, -1, -1});
  CHECK(row.positions == Numbers{0, 1, 2, 0, 0});
  CHECK(row.ranges == Numbers{0, 3, 0, 3, 0, 3, 3, 4, 4, 5});
  CHECK(got.source->documents() == 2);
  CHECK(got.source->locate(got.set.sequence_length()) == "/b.jsonl:1");
}

TEST_CASE("packed examples do not see each other", "[data]") {
  const Opened got = open(examples({2, 5}), examples({3}, 50), {.length = 6, .packing_window = 8});
  REQUIRE(got.set.size() == 2);
  CHECK(row_of(got.set, 0).tokens == Numbers{20, 21, 22, 23, 24, 0});
  const Row row = row_of(got.set, 1);
  CHECK(row.tokens == Numbers{50, 51, 52, 10, 11, 0});
  CHECK(row.targets == Numbers{51, 52, -1, 11, -1, -1});
  CHECK(row.positions == Numbers{0, 1, 2, 0, 1, 0});
  CHECK(row.ranges == Numbers{0, 3, 0, 3, 0, 3, 3, 5, 3, 5, 5, 6});
  CHECK(got.source->notes() ==
        std::vector<std::string>{
            "3 examples are packed into 2 samples, 83.3 % of whose tokens they are"});
}

TEST_CASE("what is too long is cut, split or left out, and counted", "[data]") {
  const auto notes = [](LongExamples too_long) {
    return open(examples({3, 9}), examples({2}, 50), {.length = 4, .too_long = too_long});
  };
  const Opened cut = notes(LongExamples::kTruncate);
  CHECK(cut.set.size() == 3);
  CHECK(row_of(cut.set, 1).targets == Numbers{21, 22, 23, -1});
  CHECK(cut.source->notes() ==
        std::vector<std::string>{"1 of 3 are longer than data.sequence_length, 4 tokens, and lose "
                                 "their end, the first at /a.jsonl:2"});
  // The last piece has one token, and teaches nothing.
  const Opened split = notes(LongExamples::kSplit);
  CHECK(split.set.size() == 4);
  CHECK(row_of(split.set, 2).tokens == Numbers{24, 25, 26, 27});
  CHECK(row_of(split.set, 2).positions == Numbers{0, 1, 2, 3});
  CHECK(split.source->notes().front().find("are split, the first at /a.jsonl:2") !=
        std::string::npos);
  const Opened dropped = notes(LongExamples::kDrop);
  CHECK(dropped.set.size() == 2);
  CHECK(dropped.source->notes().front().find("are left out, the first at /a.jsonl:2") !=
        std::string::npos);
}

TEST_CASE("an example that teaches nothing is left out", "[data]") {
  const std::string idle = R"({"input_ids":[1,2],"labels":[-100,-100]})"
                           "\n";
  const std::string first_alone = R"({"input_ids":[1,2],"labels":[1,-100]})"
                                  "\n";
  const Opened got = open(idle + examples({3}) + first_alone, examples({2}), {.length = 4});
  CHECK(got.set.size() == 2);
  CHECK(got.source->notes() ==
        std::vector<std::string>{
            "2 of 4 have no token that is learnt and are left out, the first at /a.jsonl:1"});
  CHECK_THROWS_WITH(open(idle, idle, {.length = 4, .packing_window = 4}),
                    Contains("2 of 2 have no token that is learnt"));
  CHECK_THROWS_WITH(open("\n", "", {.length = 4}), Contains("there is no record in it"));
  CHECK_THROWS_WITH(open(examples({2}), "{\"input_ids\":[1,2]\n", {.length = 4}),
                    Contains("/b.jsonl:1: not valid JSON"));
}

TEST_CASE("any part of the numbers is read alike", "[data]") {
  const Opened got =
      open(examples({2, 5, 1, 4, 6}), examples({3, 3}, 50), {.length = 6, .packing_window = 3});
  Numbers whole(static_cast<size_t>(got.source->size()));
  got.source->read(0, whole);
  for (int64_t begin = 0; begin < got.source->size(); begin += 5) {
    const int64_t size = std::min<int64_t>(17, got.source->size() - begin);
    Numbers part(static_cast<size_t>(size));
    got.source->read(begin, part);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + begin));
  }
  for (const int32_t number : whole) CHECK(number >= 0);
}

TEST_CASE("examples are read from lists and tables, too", "[data]") {
  MemoryFileSystem files;
  files.write_text_atomically("/a.json",
                              "[{\"prompt\": \"ab\", \"completion\": \"c\"},\n"
                              " {\"prompt\": \"\", \"completion\": \"de\"}]\n");
  files.write_text_atomically("/b.csv", "id,completion,prompt\n1,\"x\ny\",ab\n");
  const ByteTokenizer bytes;
  const auto reader = prompt_examples(bytes, {.end = 0});
  const std::vector<std::string> paths{"/a.json", "/b.csv"};
  const auto source = open_supervised(files, paths, *reader, {.length = 6});
  const SampleSet set({source}, numbers_of_supervised(6), INT32_MAX);
  REQUIRE(set.size() == 3);
  CHECK(row_of(set, 0).targets == Numbers{-1, 'c', 0, -1, -1, -1});
  CHECK(row_of(set, 1).targets == Numbers{'e', 0, -1, -1, -1, -1});
  CHECK(row_of(set, 2).targets == Numbers{-1, 'x', '\n', 'y', 0, -1});
  CHECK(source->locate(2 * set.sequence_length()) == "/b.csv:2");
  files.write_text_atomically("/c.json", "[{\"prompt\": \"ab\"},\n 5]");
  const std::vector<std::string> bad{"/c.json"};
  CHECK_THROWS_WITH(open_supervised(files, bad, *reader, {.length = 6}),
                    Contains("/c.json:1: there is no field \"completion\""));
  files.write_text_atomically("/d.json", "[{\"prompt\": \"ab\",\n");
  const std::vector<std::string> cut{"/d.json"};
  CHECK_THROWS_WITH(open_supervised(files, cut, *reader, {.length = 6}),
                    Contains("/d.json:2: the file begins as a JSON list"));
}

}  // namespace
}  // namespace ds
