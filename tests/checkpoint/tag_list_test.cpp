// What a folder of checkpoints is found to hold: every trace of a checkpoint that cannot be loaded
// is named with the reason, directories of others are passed over, and the newest that holds is
// gone on with.
#include "checkpoint/tag_list.h"

#include "core/status/error.h"
#include "tests/checkpoint/fixture.h"
#include "tests/support/catch.h"
#include "tests/support/files/memory_file_system.h"

using namespace ds;
using namespace ds::testing;

namespace {

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const CommittedTag& tag : list.tags) names.push_back(tag.tag);
  return names;
}

// "name (step): why", one a line; the step is "-" where it is not known.
std::string traces_of(const std::vector<RejectedTag>& rejected) {
  std::string out;
  for (const RejectedTag& trace : rejected) {
    out += fmt::format("{} ({}): {}\n", trace.name, trace.step ? std::to_string(*trace.step) : "-",
                       trace.why);
  }
  return out;
}

// A root with the committed tags of these steps, saved by two ranks.
void fill(MemoryFileSystem& fs, const std::vector<int64_t>& steps) {
  open_epoch(fs, "/c", 1);
  for (const int64_t step : steps) {
    save_and_commit(fs, "/c", 2,
                    {fmt::format("global_step{}", step), 1, step, static_cast<float>(step)});
  }
}

CommittedTag tag_of(int64_t step, int64_t epoch, int64_t begun_in) {
  return {fmt::format("global_step{}", step), step, epoch, begun_in};
}

}  // namespace

TEST_CASE("a default name tells its step, and no other name does", "[checkpoint]") {
  CHECK(step_in_name("global_step0") == 0);
  CHECK(step_in_name("global_step12") == 12);
  CHECK(step_in_name("global_step007") == 7);
  CHECK(step_in_name(default_tag(INT64_MAX)) == INT64_MAX);
  for (const char* name :
       {"", "global_step", "global_step-1", "global_step12x", "global_step 12", "global_step1.5",
        "step12", "xglobal_step12", "Global_step12", "global_step9223372036854775808"}) {
    CAPTURE(name);
    CHECK_FALSE(step_in_name(name).has_value());
  }
}

TEST_CASE("a trace of an unknown step may be newer than any", "[checkpoint]") {
  CHECK(may_be_newer({"x", std::nullopt, ""}, 1000));
  CHECK(may_be_newer({"x", 11, ""}, 10));
  CHECK_FALSE(may_be_newer({"x", 10, ""}, 10));
  CHECK_FALSE(may_be_newer({"x", 9, ""}, 10));
}

TEST_CASE("a root that is not there, or empty, holds nothing and is no error", "[checkpoint]") {
  MemoryFileSystem fs;
  CHECK(list_tags(fs, "/c").tags.empty());
  CHECK(list_tags(fs, "/c").rejected.empty());
  fs.make_directory("/c");
  CHECK(list_tags(fs, "/c").rejected.empty());
  CHECK_FALSE(find_newest_valid(fs, "/c", Depth::kAllBytes).tag.has_value());
  CHECK(resumable_tags(fs, "/c").tags.empty());
}

TEST_CASE("tags are listed from the newest, by their steps and not by their names",
          "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {9, 100, 20});
  save_and_commit(fs, "/c", 1, {"zebra", 1, 15, 1});
  CHECK(names_of(list_tags(fs, "/c")) ==
        std::vector<std::string>{"global_step100", "global_step20", "zebra", "global_step9"});
}

TEST_CASE("of two tags of one step the later epoch's is newer", "[checkpoint]") {
  MemoryFileSystem fs;
  open_epoch(fs, "/c", 1);
  save_and_commit(fs, "/c", 1, {"first", 1, 5, 1});
  open_epoch(fs, "/c", 2);
  save_and_commit(fs, "/c", 1, {"again", 2, 5, 2});
  CHECK(names_of(list_tags(fs, "/c")) == std::vector<std::string>{"again", "first"});
}

TEST_CASE("what other programs keep in the root is passed over", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {3});
  fs.make_directories("/c/tensorboard/events");
  fs.make_directory("/c/best");
  fs.write_text_atomically("/c/best/weights.bin", "x");
  fs.write_text_atomically("/c/notes.txt", "x");
  fs.write_text_atomically("/c/rank-00000.pieces", "x");
  const TagList list = list_tags(fs, "/c");
  CHECK(names_of(list) == std::vector<std::string>{"global_step3"});
  CHECK(traces_of(list.rejected).empty());
}

TEST_CASE("saves that are under way or were given up are no traces", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {3});
  for (const char* name : {"global_step4.tmp.1", "global_step3.old.2", "global_step2.gone.1",
                           "global_step5.ready.1"}) {
    fs.make_directory(std::string("/c/") + name);
    fs.write_text_atomically(fmt::format("/c/{}/rank-00000.pieces", name), "x");
  }
  const TagList list = list_tags(fs, "/c");
  CHECK(list.tags.size() == 1);
  CHECK(traces_of(list.rejected).empty());
}

TEST_CASE("DeepSpeed's checkpoints in the root are named, whatever their tag", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {3});
  for (const char* const tag : {"best", "global_step8"}) {
    fs.make_directories(std::string("/c/") + tag);
    fs.write_text_atomically(fmt::format("/c/{}/mp_rank_00_model_states.pt", tag), "x");
  }
  const std::string traces = traces_of(list_tags(fs, "/c").rejected);
  CHECK_THAT(traces, Catch::Contains("best (-): /c/best: is a folder of DeepSpeed's") &&
                         Catch::Contains("global_step8 (8): /c/global_step8: is a folder of Deep"));
}

TEST_CASE("a directory that looks like a checkpoint and is none is named", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {3});
  fs.make_directory("/c/global_step8");
  fs.make_directory("/c/mine");
  fs.write_text_atomically("/c/mine/rank-00001.pieces", "x");
  fs.write_text_atomically("/c/global_step9", "a file");
  CHECK(traces_of(list_tags(fs, "/c").rejected) ==
        "global_step8 (8): /c/global_step8: has no manifest.json; it was removed, or another "
        "program wrote this\n"
        "global_step9 (9): /c/global_step9: is no directory but a link or a file; put the "
        "directory itself there\n"
        "mine (-): /c/mine: has no manifest.json; it was removed, or another program wrote this\n");
}

TEST_CASE("a tag whose files are not those of its manifest is named with the file",
          "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2, 3, 4});
  fs.remove("/c/global_step2/rank-00001.pieces");
  const int64_t whole = fs.open("/c/global_step3/rank-00000.pieces")->size();
  fs.truncate("/c/global_step3/rank-00000.pieces", whole - 1);
  fs.truncate("/c/global_step4/manifest.json", 100);
  const TagList list = list_tags(fs, "/c");
  CHECK(names_of(list) == std::vector<std::string>{"global_step1"});
  REQUIRE(list.rejected.size() == 3);
  CHECK(list.rejected[0].why ==
        "/c/global_step2/rank-00001.pieces: is missing; the manifest names it");
  CHECK(list.rejected[1].why ==
        fmt::format("/c/global_step3/rank-00000.pieces: truncated or replaced: {} bytes, the "
                    "manifest says {}",
                    whole - 1, whole));
  CHECK_THAT(list.rejected[2].why,
             Catch::StartsWith("/c/global_step4/manifest.json: corrupt: its digest is"));
  CHECK(list.rejected[1].step == 3);
  CHECK(list.rejected[1].begun_in == 0);  // the manifest told it
  CHECK_FALSE(list.rejected[2].begun_in.has_value());
}

TEST_CASE("a manifest that was emptied, or is a folder, makes a trace and no crash",
          "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2});
  fs.truncate("/c/global_step1/manifest.json", 0);
  fs.remove("/c/global_step2/manifest.json");
  fs.make_directory("/c/global_step2/manifest.json");
  const TagList list = list_tags(fs, "/c");
  CHECK(list.tags.empty());
  REQUIRE(list.rejected.size() == 2);
  CHECK_THAT(list.rejected[0].why, Catch::Contains("does not begin with its digest"));
  CHECK_FALSE(list.rejected[1].why.empty());
}

TEST_CASE("files can be left unlooked at", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1});
  fs.remove("/c/global_step1/rank-00000.pieces");
  const DirectoryEntry entry = fs.list("/c").back();
  REQUIRE(entry.name == "global_step1");
  CHECK(judge_directory(fs, "/c", entry, Files::kIgnore).tag->step == 1);
  CHECK_FALSE(judge_directory(fs, "/c", entry, Files::kCheck).tag.has_value());
}

TEST_CASE("latest bears witness to a tag that is gone, and to nothing else", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2});
  const auto told = [&](const std::string& latest) {
    fs.write_text_atomically("/c/latest", latest);
    return traces_of(list_tags(fs, "/c").rejected);
  };
  CHECK(told("global_step2\n").empty());
  CHECK(told("global_step1").empty());
  CHECK(told("global_step7 \r\n") ==
        "global_step7 (7): /c/latest: names global_step7, which is not there; it was removed or "
        "renamed\n");
  CHECK(told("best\n") ==
        "best (-): /c/latest: names best, which is not there; it was removed or renamed\n");
  for (const std::string& none : {std::string(), std::string("\n"), std::string("a/b"),
                                  std::string("two\nlines"), std::string(5000, 'x')}) {
    CHECK(told(none) == "latest (-): /c/latest: names no tag; a tag was committed here once\n");
  }
  // What is there and does not hold is named once.
  fs.truncate("/c/global_step2/manifest.json", 10);
  fs.write_text_atomically("/c/latest", "global_step2\n");
  CHECK(list_tags(fs, "/c").rejected.size() == 1);
}

TEST_CASE("training goes on from what was begun last, at the oldest epoch allowed or after",
          "[checkpoint]") {
  TagList list;
  list.tags = {tag_of(5, 4, 3), tag_of(4, 3, 3), tag_of(90, 2, 1)};
  CHECK(names_of(resumable_of(list, {.oldest_epoch = 0})) ==
        std::vector<std::string>{"global_step5", "global_step4"});
  CHECK(names_of(resumable_of(list, {.oldest_epoch = 4})) ==
        std::vector<std::string>{"global_step5"});
  CHECK(resumable_of(list, {.oldest_epoch = 5}).tags.empty());
  CHECK(resumable_of({}, {.oldest_epoch = 0}).tags.empty());
}

TEST_CASE("traces of an older training are no concern of the one that goes on", "[checkpoint]") {
  TagList list;
  list.tags = {tag_of(5, 4, 3)};
  list.rejected = {
      {"old", 50, "why", 1}, {"same", 6, "why", 3}, {"unknown", std::nullopt, "why", std::nullopt}};
  const auto kept = [&](int64_t oldest) {
    std::string out;
    for (const RejectedTag& trace : resumable_of(list, {.oldest_epoch = oldest}).rejected)
      out += trace.name + " ";
    return out;
  };
  CHECK(kept(0) == "same unknown ");
  // If a training was begun anew on purpose, tags that cannot be dated are of the one before.
  CHECK(kept(3) == "same ");
}

TEST_CASE("a trace of a training that was begun later shuts out the tags of the one before",
          "[checkpoint]") {
  TagList list;
  list.tags = {tag_of(90, 2, 1)};
  list.rejected = {{"global_step5", 5, "damaged", 3}};
  CHECK(resumable_of(list, {.oldest_epoch = 0}).tags.empty());
  CHECK(resumable_of(list, {.oldest_epoch = 0}).rejected.size() == 1);
}

TEST_CASE("the newest tag that holds is found, with why newer ones were passed over",
          "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2, 3, 4});
  fs.flip_bit("/c/global_step3/rank-00001.pieces", 100);  // only reading it all tells
  fs.remove("/c/global_step4/rank-00000.pieces");
  fs.remove("/c/global_step1/rank-00000.pieces");
  const FoundTag quick = find_newest_valid(fs, "/c", Depth::kIndexes);
  CHECK(quick.tag->step == 3);
  REQUIRE(quick.rejected.size() == 1);
  CHECK(quick.rejected[0].name == "global_step4");
  const FoundTag thorough = find_newest_valid(fs, "/c", Depth::kAllBytes);
  CHECK(thorough.tag->step == 2);
  REQUIRE(thorough.rejected.size() == 2);  // the damaged tag of step 1 is older
  CHECK(thorough.rejected[0].name == "global_step4");
  CHECK(thorough.rejected[1].name == "global_step3");
  CHECK_THAT(thorough.rejected[1].why, Catch::Contains("/c/global_step3/rank-00001.pieces"));
  REQUIRE(passed_over(thorough).size() == 2);
  CHECK(passed_over(thorough)[1] == thorough.rejected[1].why + "; taken is global_step2");
  CHECK(set_back(thorough, "/c").empty());
}

TEST_CASE("where no tag holds, everything that was tried is told", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2});
  fs.flip_bit("/c/global_step1/rank-00000.pieces", 9);
  fs.remove("/c/global_step2/rank-00000.pieces");
  const FoundTag found = find_newest_valid(fs, "/c", Depth::kAllBytes);
  CHECK_FALSE(found.tag.has_value());
  CHECK(found.rejected.size() == 2);
  CHECK(passed_over(found).empty());  // nothing is taken in their stead
  CHECK(set_back(found, "/c").empty());
}

TEST_CASE("looking at tags changes nothing on the disk", "[checkpoint]") {
  MemoryFileSystem fs;
  fill(fs, {1, 2});
  fs.truncate("/c/global_step2/manifest.json", 10);
  fs.make_directory("/c/global_step9");
  const int64_t bytes = fs.used_bytes();
  const size_t entries = fs.list("/c").size();
  find_newest_valid(fs, "/c", Depth::kAllBytes);
  resumable_tags(fs, "/c", {.oldest_epoch = 3});
  CHECK(fs.used_bytes() == bytes);
  CHECK(fs.list("/c").size() == entries);
}
