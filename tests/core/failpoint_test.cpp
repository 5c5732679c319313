// Terms, counts, chances and scopes of failpoints.
#include "core/status/failpoint.h"

#include <algorithm>

#include "core/files/file.h"
#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {

#ifdef DS_FAILPOINTS

namespace {

// What ten hits of a place do: '.' nothing, 'e' EIO, 'f' disk full, 'c' communication error.
std::string ten_hits(std::string_view name) {
  std::string out;
  for (int i = 0; i < 10; ++i) {
    try {
      hit_failpoint(name);
      out += '.';
    } catch (const DiskFull&) {
      out += 'f';
    } catch (const IoError&) {
      out += 'e';
    } catch (const CommError&) {
      out += 'c';
    }
  }
  return out;
}

}  // namespace

TEST_CASE("terms act in turn, as often as they say", "[core]") {
  const FailpointScope scope{2, 1};
  const std::vector<std::pair<std::string, std::string>> cases{
      {"off", ".........."},
      {"error(eio)", "eeeeeeeeee"},
      {"3*off->error(enospc)", "...fffffff"},
      {"3*off->2*error(eio)->off", "...ee....."},
      {"off -> error(comm) -> 2*off -> error(eio)", ".c..eeeeee"},
      {"2*error(eio)", "ee........"},
      {"p(0,7)->error(eio)", ".........."},
      {"p(1,7)->error(eio)", "eeeeeeeeee"},
      {"sleep(0)->error(eio)", ".eeeeeeeee"}};
  for (const auto& [text, expected] : cases) {
    arm_failpoints("train.begin=" + text, scope);
    CHECK(ten_hits("train.begin") == expected);
  }
  arm_failpoints("train.begin=p(0.3,7)->error(eio)", scope);
  const std::string first = ten_hits("train.begin");
  arm_failpoints("train.begin=p(0.3,7)->error(eio)", scope);
  CHECK(ten_hits("train.begin") == first);  // the seed decides
  CHECK(ten_hits("train.loaded") == "..........");
  arm_failpoints("train.begin=off", scope);
}

TEST_CASE("a place may be for one rank and one epoch", "[core]") {
  arm_failpoints(
      "train.begin@rank1=error(eio); train.loaded@rank2@epoch1=error(eio);"
      "train.planned@epoch2=error(eio)",
      {2, 1});
  CHECK(ten_hits("train.begin") == "..........");
  CHECK(ten_hits("train.loaded") == "eeeeeeeeee");
  CHECK(ten_hits("train.planned") == "..........");
  arm_failpoints("train.begin=off", {2, 1});
}

TEST_CASE("what is no failpoint is refused by name", "[core]") {
  for (const char* text :
       {"train.begin", "nowhere=kill", "train.begin=explode", "train.begin=exit()",
        "train.begin=exit(x)", "train.begin=x*off", "train.begin=p(1)->off", "train.begin@host=off",
        "train.begin=error(what)", "train.begin=sleep(1"}) {
    CHECK_THROWS_AS(arm_failpoints(text, {0, 1}), UsageError);
  }
  CHECK_NOTHROW(arm_failpoints("", {0, 1}));
}

TEST_CASE("there are at least 60 places, sorted", "[core]") {
  CHECK(failpoint_names().size() >= 60);
  CHECK(std::ranges::is_sorted(failpoint_names()));
}

#else

TEST_CASE("a build without failpoints refuses to arm any", "[core]") {
  CHECK_THROWS_AS(arm_failpoints("train.begin=kill", {0, 1}), Unsupported);
  CHECK(failpoint_names().empty());
}

#endif

}  // namespace ds
