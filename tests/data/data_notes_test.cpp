// What is noted of the files of one key: each thing once, however many files there are.
#include "data/text/data_notes.h"

#include "tests/support/catch.h"

using namespace ds;
using Form = DataNotes::Form;

namespace {

std::vector<std::string> notes_of(const std::vector<DataNotes::NamedFile>& files) {
  DataNotes notes;
  notes.add_files(files);
  return notes.texts();
}

}  // namespace

TEST_CASE("a sign is noted once, with the first file and the number of others", "[data]") {
  DataNotes notes;
  CHECK(notes.texts().empty());
  notes.add_text("d/plain.txt", "text\n");
  CHECK(notes.texts().empty());
  notes.add_text("d/a.csv", "text\n");
  CHECK_THAT(notes.texts().at(0),
             Catch::StartsWith("d/a.csv is a table (CSV) by its name; it is read as text, as it "
                               "stands; ") &&
                 Catch::Contains("mlr --icsv"));
  notes.add_text("d/b.csv", "text\n");
  CHECK_THAT(notes.texts().at(0), Catch::StartsWith("d/a.csv (and 1 other) is a table"));
  notes.add_text("d/c.csv", "text\n");
  notes.add_text("d/d.html", "<p>");
  REQUIRE(notes.texts().size() == 2);
  CHECK_THAT(notes.texts().at(0), Catch::StartsWith("d/a.csv (and 2 others) is a table"));
  CHECK_THAT(notes.texts().at(1), Catch::StartsWith("d/d.html is HTML by its name"));
}

TEST_CASE("texts beside JSON lines or token ids are noted with the pattern that leaves them out",
          "[data]") {
  const auto notes = notes_of({{"s/LICENSE", Form::kText},
                               {"s/README.md", Form::kText},
                               {"s/part-0.jsonl.gz", Form::kJsonLines}});
  REQUIRE(notes.size() == 1);
  CHECK(
      notes[0] ==
      "s/LICENSE (and 1 other) is text beside JSON lines (s/part-0.jsonl.gz), and is read, too; to "
      "leave it out, name a pattern such as s/*.jsonl.gz");
  CHECK_THAT(notes_of({{"notes", Form::kText}, {"x.bin", Form::kTokens}}).at(0),
             Catch::StartsWith("notes is text beside token ids (x.bin)") &&
                 Catch::EndsWith("a pattern such as *.bin"));
  CHECK(notes_of({{"a.jsonl", Form::kJsonLines}, {"b.bin", Form::kTokens}}).empty());
  CHECK(notes_of({{"a.txt", Form::kText}, {"b.txt", Form::kText}}).empty());
}

TEST_CASE(
    "a file whose name says that it is about the others is noted among texts of other endings",
    "[data]") {
  CHECK_THAT(
      notes_of({{"d/Readme.md", Form::kText}, {"d/a.txt", Form::kText}, {"d/b.txt", Form::kText}})
          .at(0),
      Catch::StartsWith("d/Readme.md is read as a text like the others") &&
          Catch::EndsWith("such as d/*.txt"));
  CHECK_THAT(
      notes_of({{"d/LICENSE", Form::kText}, {"d/part", Form::kText}, {"d/x.txt", Form::kText}})
          .at(0),
      Catch::StartsWith("d/LICENSE is read"));
  // A folder of Markdown has a README.md, which is a text like any other.
  CHECK(notes_of({{"d/README.md", Form::kText}, {"d/a.md", Form::kText}}).empty());
  CHECK(notes_of({{"d/README.md", Form::kText}}).empty());
  CHECK(notes_of({{"d/readmes.md", Form::kText}, {"d/a.txt", Form::kText}}).empty());
}

TEST_CASE("names of datasets' own files are known, whatever folder they are in", "[data]") {
  CHECK(is_about_data("dataset_infos.json"));
  CHECK(is_about_data("d/state.json"));
  CHECK_FALSE(is_about_data("d/my_state.json"));
  CHECK_FALSE(is_about_data("state.json/a.jsonl"));
}

TEST_CASE("of many files a fixed number is looked into, the first and the last among them",
          "[data]") {
  for (const size_t files : {1UL, 2UL, 255UL, 256UL, 257UL, 1000UL, 100'000UL}) {
    CAPTURE(files);
    size_t count = 0;
    size_t last = 0;
    for (size_t i = 0; i < files; ++i) {
      if (!is_looked_into(i, files)) continue;
      REQUIRE(i - last <= files / (kMostLookedInto - 1) + 1);
      last = i;
      ++count;
    }
    CHECK(count == std::min(files, kMostLookedInto));
    CHECK(is_looked_into(0, files));
    CHECK(last == files - 1);
  }
}
