#include "data/sentence_pairs.h"

#include <map>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

namespace ds {
namespace {

using Numbers = std::vector<int32_t>;

// Documents of sentences of so many tokens, each token another number.
SentenceRun run_of(const std::vector<std::vector<int>>& documents) {
  SentenceRun run;
  for (const std::vector<int>& document : documents) {
    for (const int size : document) {
      for (int i = 0; i < size; ++i) run.ids.push_back(static_cast<int32_t>(run.ids.size()));
      run.sentence_ends.push_back(std::ssize(run.ids));
    }
    run.document_ends.push_back(std::ssize(run.sentence_ends));
  }
  return run;
}

SentenceRun many_documents(int documents) {
  std::vector<std::vector<int>> all;
  for (int d = 0; d < documents; ++d) {
    all.emplace_back();
    for (int s = 0; s <= d % 9; ++s) all.back().push_back(1 + (7 * d + 3 * s) % 6);
  }
  return run_of(all);
}

int64_t document_of(const SentenceRun& run, int64_t sentence) {
  return std::ranges::upper_bound(run.document_ends, sentence) - run.document_ends.begin();
}

TEST_CASE("pairs cover a document, and come from it or from another", "[data]") {
  const SentenceRun all = many_documents(60);
  const Rng rng(3, "pairs");
  for (const PairRules& rules : {PairRules{}, PairRules{.random_prob = 0, .short_prob = 0},
                                 PairRules{.random_prob = 1, .short_prob = 1}}) {
    for (const int64_t room : {2, 9, 40}) {
      for (int64_t d = 0; d < all.documents(); ++d) {
        CAPTURE(rules.random_prob, room, d);
        int64_t next = d == 0 ? 0 : all.document_ends[static_cast<size_t>(d - 1)];
        for (const SentencePair& pair : pairs_of_document(all, d, room, rules, rng)) {
          REQUIRE(pair.first_begin == next);
          REQUIRE(pair.first_end > pair.first_begin);
          REQUIRE(document_of(all, pair.first_end - 1) == d);
          REQUIRE(pair.second_end > pair.second_begin);
          REQUIRE(document_of(all, pair.second_begin) == document_of(all, pair.second_end - 1));
          if (pair.label == kGoesOn) {
            REQUIRE(pair.second_begin == pair.first_end);
            REQUIRE(document_of(all, pair.second_begin) == d);
            REQUIRE(rules.random_prob < 1);
          } else {
            REQUIRE(document_of(all, pair.second_begin) != d);
          }
          // All sentences but the last of the two texts have less than there is room for.
          const auto first = all.tokens(pair.first_begin, pair.first_end - 1).size();
          REQUIRE(static_cast<int64_t>(first) < room);
          next = pair.label == kGoesOn ? pair.second_end : pair.first_end;
        }
        REQUIRE(next == all.document_ends[static_cast<size_t>(d)]);
      }
    }
  }
}

TEST_CASE("pairs are as often of either kind as the rules say, and of all places", "[data]") {
  const SentenceRun all = many_documents(900);
  std::map<int32_t, int> labels;
  std::map<int64_t, int> elsewhere;
  int first_is_one = 0, pairs = 0, short_ones = 0;
  for (int64_t d = 0; d < all.documents(); ++d) {
    for (const SentencePair& pair :
         pairs_of_document(all, d, 12, {.random_prob = 0.3, .short_prob = 0}, Rng(5, "p"))) {
      if (pair.label == kFromElsewhere) ++elsewhere[document_of(all, pair.second_begin) % 9];
      if (document_of(all, pair.first_end) != d) continue;  // which had no second text in it
      ++labels[pair.label];
      ++pairs;
      if (pair.first_end == pair.first_begin + 1) ++first_is_one;
    }
    for (const SentencePair& pair :
         pairs_of_document(all, d, 1000, {.random_prob = 0, .short_prob = 0.5}, Rng(5, "p"))) {
      if (pair.label == kGoesOn) short_ones += document_of(all, pair.second_end) == d ? 1 : 0;
    }
  }
  const double share = static_cast<double>(labels[kFromElsewhere]) / pairs;
  CHECK(share == Approx(0.3).margin(0.04));
  CHECK(first_is_one > pairs / 10);
  CHECK(first_is_one < pairs * 9 / 10);
  CHECK(elsewhere.size() == 9);
  CHECK(short_ones > 0);
}

PairForm form_of(int64_t length) {
  return {.length = length,
          .frame = {.before = {1}, .between = {3}, .after = {2}, .has_segments = true},
          .rules = {.random_prob = 0, .short_prob = 0}};
}

struct Opened {
  std::vector<Numbers> samples;
  std::vector<std::string> places, notes;
};
Opened open(const std::map<std::string, std::string>& texts, const PairForm& form) {
  MemoryFileSystem files;
  std::vector<std::string> paths;
  for (const auto& [path, text] : texts) {
    files.write_text_atomically(path, text);
    paths.push_back(path);
  }
  const auto source = open_sentence_pairs(files, paths, ByteTokenizer(), form);
  const int64_t numbers = numbers_of_labelled(form.length.tokens, 0);
  const SampleSet set({source}, numbers, INT32_MAX);
  Opened out{.samples = {}, .places = {}, .notes = source->notes()};
  for (int64_t i = 0; i < set.size(); ++i) {
    Numbers sample(static_cast<size_t>(numbers) + 1);
    set.read(i, sample);
    sample.pop_back();
    out.samples.push_back(std::move(sample));
    out.places.push_back(source->locate(i * numbers));
  }
  return out;
}

TEST_CASE("lines are sentences, and empty ones are between documents", "[data]") {
  // One text goes on; one is alone, and has one of the other document behind it.
  const Opened opened = open({{"/a.txt", "ab\r\nc\n\n \nd\n"}}, form_of(8));
  REQUIRE(opened.samples.size() == 2);
  CHECK(opened.samples[0] == Numbers{1, 'a', 'b', 3, 'c', 2, 0, 0, 6, 4, kGoesOn});
  const Numbers& alone = opened.samples[1];
  CHECK(alone[1] == 'd');
  CHECK(alone.back() == kFromElsewhere);
  CHECK_THAT(opened.places[0], Catch::Contains("/a.txt:1"));
  CHECK_THAT(opened.places[1], Catch::Contains("/a.txt:5"));
  CHECK(opened.notes.empty());
}

TEST_CASE("each JSON line is a document, and files end documents", "[data]") {
  const Opened lines = open({{"/a.jsonl", R"({"text": "ab\nc"})"
                                          "\n"
                                          R"({"text": "d\n\ne"})"
                                          "\n"}},
                            form_of(8));
  REQUIRE(lines.samples.size() == 2);
  CHECK(lines.samples[0] == Numbers{1, 'a', 'b', 3, 'c', 2, 0, 0, 6, 4, kGoesOn});
  CHECK(lines.samples[1] == Numbers{1, 'd', 3, 'e', 2, 0, 0, 0, 5, 3, kGoesOn});
  const Opened files = open({{"/a.txt", "ab\nc"}, {"/b.txt", "d\ne"}}, form_of(8));
  CHECK(files.samples == lines.samples);
  CHECK_THAT(files.places[1], Catch::Contains("/b.txt:1"));
}

// What goes on has its beginning, and what it goes on from its end.
TEST_CASE("texts that are too long meet in the middle", "[data]") {
  const Opened opened = open({{"/a.txt", "abcde\nfghij\n\nx\ny\n"}}, form_of(9));
  CHECK(opened.samples[0] == Numbers{1, 'c', 'd', 'e', 3, 'f', 'g', 'h', 2, 9, 5, kGoesOn});
  CHECK(opened.notes.empty());
}

TEST_CASE("a table that is taken for sentences is noted", "[data]") {
  std::string table;
  for (int row = 0; row < 80; ++row) table += row % 8 == 7 ? "\n" : "1,two,3\n";
  const Opened opened = open({{"/a.csv", table}}, form_of(20));
  REQUIRE(opened.notes.size() == 1);
  CHECK_THAT(opened.notes.front(), Catch::Contains("/a.csv") && Catch::Contains("table"));
}

TEST_CASE("what no pairs can be made of is refused", "[data]") {
  const auto refusal = [](const std::string& path, const std::string& text, int64_t length = 8) {
    try {
      open({{path, text}}, form_of(length));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK_THAT(refusal("/a.txt", "a\nb\n"), Catch::Contains("/a.txt: all of it is one document"));
  CHECK_THAT(refusal("/a.txt", "\n \n"), Catch::Contains("/a.txt: there is no sentence in it"));
  CHECK_THAT(refusal("/a.txt", "a\nb\n\nc\n", 4),
             Catch::Contains("data.sequence_length: 4 tokens have no room for two texts"));
  CHECK_THAT(refusal("/a.txt", "a\n\nb\xff\n"), Catch::Contains("/a.txt"));
  CHECK_THAT(refusal("/a.jsonl", R"({"tex": "a"})"), Catch::Contains("/a.jsonl:1"));
  MemoryFileSystem none;
  const std::vector<std::string> paths{"/gone.txt"};
  CHECK_THROWS_AS(open_sentence_pairs(none, paths, ByteTokenizer(), form_of(8)), InputMissing);
}

}  // namespace
}  // namespace ds
