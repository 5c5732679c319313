// Lines of tags: what led to what, who may be gone on with, and what may be deleted.
#include "checkpoint/lineage.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

using Names = std::vector<std::string>;

struct Given {
  int64_t step = 0;
  int64_t epoch = 1;
  int64_t begun_in = 1;
  std::vector<Ancestor> after{};
  bool skipped = false;
  bool named = true;
};

CommittedTag tag_of(const Given& given) {
  return {.tag = fmt::format("global_step{}", given.step),
          .step = given.step,
          .epoch = given.epoch,
          .begun_in = given.begun_in,
          .after = given.after,
          .skipped = given.skipped,
          .named = given.named};
}

TagList list_of(const std::vector<Given>& newest_first, const std::string& latest = "") {
  TagList out;
  for (const Given& given : newest_first) out.tags.push_back(tag_of(given));
  out.latest = latest;
  return out;
}

template <class List>
Names names_of(const List& list) {
  Names out;
  for (const CommittedTag& tag : list.tags) out.push_back(tag.tag.substr(11));
  return out;
}

const TagList kThree = list_of({{.step = 9}, {.step = 6}, {.step = 3}});

TEST_CASE("a latest that names an earlier tag is somebody's wish to go back", "[checkpoint]") {
  TagList list = kThree;
  for (const char* const latest : {"", "global_step9"}) {
    list.latest = latest;
    const Resumable all = resumable_of(list);
    CHECK(names_of(all) == Names{"9", "6", "3"});
    CHECK(all.chosen_by == ChosenBy::kAge);
    CHECK_FALSE(all.branches_at(all.tags[0]));
    CHECK_FALSE(all.branches_at(all.tags[1]));  // 9 does not hold: the same line goes on
  }
  list.latest = "global_step6";
  const Resumable back = resumable_of(list);
  CHECK(names_of(back) == Names{"6", "3"});
  CHECK(back.chosen_by == ChosenBy::kLatest);
  CHECK(back.newest == "global_step9");
  CHECK(back.branches_at(back.tags[0]));
  CHECK(back.branches_at(back.tags[1]));
}

TEST_CASE("a latest that was late is no wish, and is told", "[checkpoint]") {
  TagList list = kThree;
  list.latest = "global_step6";
  list.tags[0].named = false;
  const Resumable all = resumable_of(list);
  CHECK(names_of(all) == Names{"9", "6", "3"});
  CHECK(all.overlooked == "global_step6");
  list.latest = "global_step7";  // which is not there
  CHECK(resumable_of(list).overlooked.empty());
}

TEST_CASE("a line that went back has its ancestors, and not what was left behind", "[checkpoint]") {
  const std::vector<Ancestor> after{{.begun_in = 1, .step = 6}};
  TagList list = list_of({{.step = 8, .epoch = 2, .begun_in = 2, .after = after, .named = false},
                          {.step = 9},
                          {.step = 6},
                          {.step = 3}},
                         "global_step6");
  CHECK(names_of(resumable_of(list)) == Names{"8", "6", "3"});
  list.tags[0].named = true;
  list.latest = "global_step8";
  const Resumable line = resumable_of(list);
  CHECK(names_of(line) == Names{"8", "6", "3"});
  CHECK_FALSE(line.branches_at(line.tags[0]));
  CHECK(line.branches_at(line.tags[1]));  // 8 does not hold: another line, lest 8 be taken later
  // Back to what was left behind.
  list.latest = "global_step9";
  const Resumable other = resumable_of(list);
  CHECK(names_of(other) == Names{"9", "6", "3"});
  CHECK(other.branches_at(other.tags[0]));
}

TEST_CASE("the ancestors of a damaged line are known by what is left of it", "[checkpoint]") {
  TagList list = kThree;
  list.rejected = {{"global_step8", 8, "damaged", 2, {{.begun_in = 1, .step = 6}}}};
  const Resumable line = resumable_of(list);
  CHECK(names_of(line) == Names{"6", "3"});
  CHECK(line.rejected.size() == 1);
  CHECK(line.branches_at(line.tags[0]));
}

TEST_CASE("who asks for a tag gets it, and after a restart what came of it", "[checkpoint]") {
  TagList list = kThree;
  const ResumeWish wish{.oldest_epoch = 4, .tag = "global_step6"};
  const Resumable first = resumable_of(list, wish);
  CHECK(names_of(first) == Names{"6", "3"});
  CHECK(first.chosen_by == ChosenBy::kWish);
  CHECK(first.branches_at(first.tags[0]));
  list.tags.insert(
      list.tags.begin(),
      tag_of({.step = 7, .epoch = 4, .begun_in = 4, .after = {{.begun_in = 1, .step = 6}}}));
  const Resumable restarted = resumable_of(list, wish);
  CHECK(names_of(restarted) == Names{"7", "6", "3"});
  CHECK(restarted.chosen_by == ChosenBy::kAge);
  CHECK_FALSE(restarted.branches_at(restarted.tags[0]));
  const Resumable none = resumable_of(kThree, {.oldest_epoch = 4, .tag = "global_step5"});
  CHECK(none.tags.empty());
  CHECK(none.chosen_by == ChosenBy::kWish);
  const Resumable newest = resumable_of(kThree, {.oldest_epoch = 4, .tag = "global_step9"});
  CHECK_FALSE(newest.branches_at(newest.tags[0]));
}

TEST_CASE("a tag that was asked for and does not hold is told of, and nothing else",
          "[checkpoint]") {
  TagList list = kThree;
  list.rejected = {{"global_step5", 5, "damaged"}, {"global_step7", 7, "damaged, too"}};
  const Resumable none = resumable_of(list, {.oldest_epoch = 4, .tag = "global_step5"});
  CHECK(none.tags.empty());
  REQUIRE(none.rejected.size() == 1);
  CHECK(none.rejected[0].why == "damaged");
}

TEST_CASE("traces of what was left behind are nobody's loss", "[checkpoint]") {
  TagList list = kThree;
  list.latest = "global_step6";
  list.rejected = {{"global_step8", 8, "", 1},
                   {"global_step5", 5, "", 1},
                   {"global_step7", 7, ""},
                   {"global_step4", 4, ""},
                   {"mine", std::nullopt, ""}};
  std::string kept;
  for (const RejectedTag& trace : resumable_of(list).rejected) kept += trace.name + " ";
  CHECK(kept == "global_step5 global_step4 ");
}

TEST_CASE("states in memory count if they are of the line or of one that began since",
          "[checkpoint]") {
  TagList list = kThree;
  CHECK(resumable_of(list).has_state(1, 11));
  list.latest = "global_step6";
  const Resumable back = resumable_of(list);
  CHECK(back.has_state(1, 6));
  CHECK_FALSE(back.has_state(1, 8));
  CHECK(back.has_state(2, 7));  // the launch that went back has kept it
}

TEST_CASE("a line that begins remembers only lines of which there is something", "[checkpoint]") {
  const CommittedTag from =
      tag_of({.step = 8,
              .begun_in = 5,
              .after = {{.begun_in = 1, .step = 6}, {.begun_in = 3, .step = 7}}});
  const std::vector<CommittedTag> there{from, tag_of({.step = 6, .begun_in = 1})};
  CHECK(ancestors_after(from, there) ==
        std::vector<Ancestor>{{.begun_in = 1, .step = 6}, {.begun_in = 5, .step = 8}});
  CommittedTag old = tag_of({.step = 100, .begun_in = 100});
  std::vector<CommittedTag> all;
  for (int64_t line = 1; line <= 40; ++line) {
    old.after.push_back({.begun_in = line, .step = line});
    all.push_back(tag_of({.step = line, .begun_in = line}));
  }
  const std::vector<Ancestor> kept = ancestors_after(old, all);
  CHECK(kept.size() == kMostAncestors);
  CHECK(kept.back() == Ancestor{.begun_in = 100, .step = 100});
}

TEST_CASE("the newest that are progress stay", "[checkpoint]") {
  const auto surplus = [](const std::vector<Given>& newest_first, int64_t keep, int64_t step) {
    Names out;
    for (const std::string& name : surplus_of(list_of(newest_first).tags, keep, step))
      out.push_back(name.substr(11));
    return out;
  };
  CHECK(surplus({{.step = 9}, {.step = 6}, {.step = 3}}, 2, 9) == Names{"3"});
  CHECK(surplus({{.step = 9}, {.step = 6}, {.step = 3}}, 1, 6) == Names{"3"});
  CHECK(surplus({{.step = 9}, {.step = 6}}, 2, 9).empty());
  CHECK(surplus({{.step = 9}}, 1, 5).empty());
  // One that is kept always takes the place of none.
  const std::vector<CommittedTag> four =
      list_of({{.step = 9}, {.step = 6}, {.step = 3}, {.step = 1}}).tags;
  CHECK(surplus_of(four, {1, four[2].tag}, 9) == Names{four[1].tag, four[3].tag});
  CHECK(surplus_of(four, {1, four[0].tag}, 9).size() == 3);
  CHECK(surplus_of(four, {1, "global_step7"}, 9).size() == 3);
  // One of a skipped step pushes none out, and goes when there is progress again.
  CHECK(surplus({{.step = 9, .skipped = true}, {.step = 6}, {.step = 3}}, 2, 9).empty());
  CHECK(surplus({{.step = 9, .skipped = true}, {.step = 6}, {.step = 3}}, 1, 9) == Names{"3"});
  CHECK(surplus({{.step = 9, .skipped = true}, {.step = 8, .skipped = true}, {.step = 6}}, 1, 9) ==
        Names{"8"});
  CHECK(surplus({{.step = 10}, {.step = 9, .skipped = true}, {.step = 6}}, 2, 10) == Names{"9"});
  // What was left behind goes before an ancestor does.
  const std::vector<Ancestor> after{{.begun_in = 1, .step = 6}};
  const std::vector<Given> two_lines{
      {.step = 10, .begun_in = 2, .after = after}, {.step = 9}, {.step = 6}, {.step = 3}};
  CHECK(surplus(two_lines, 2, 10) == Names{"3", "9"});
  CHECK(surplus(two_lines, 3, 10) == Names{"9"});
}

}  // namespace
}  // namespace ds
