// What failpoints do to a process, and what is said of a text that is none.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include "core/status/error.h"
#include "core/status/failpoint.h"
#include "tests/support/catch.h"

#ifdef DS_FAILPOINTS

namespace ds {
namespace {

// How a child ends that arms the text and passes the place `hits` times; it exits with 0 otherwise.
int status_of_child(const char* text, int hits) {
  const pid_t child = ::fork();
  if (child == 0) {
    arm_failpoints(text, {0, 1});
    for (int i = 0; i < hits; ++i) hit_failpoint("train.begin");
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    ::kill(child, SIGKILL);
    int end = 0;
    ::waitpid(child, &end, 0);
  }
  return status;
}

TEST_CASE("a failpoint ends, kills or stops its process at the hit that it names", "[core]") {
  const int exited = status_of_child("train.begin=2*off->exit(9)", 3);
  CHECK(WIFEXITED(exited));
  CHECK(WEXITSTATUS(exited) == 9);
  const int early = status_of_child("train.begin=2*off->exit(9)", 2);
  CHECK(WIFEXITED(early));
  CHECK(WEXITSTATUS(early) == 0);
  const int killed = status_of_child("train.begin=kill", 1);
  CHECK(WIFSIGNALED(killed));
  CHECK(WTERMSIG(killed) == SIGKILL);
  const int stopped = status_of_child("train.begin=stop", 1);
  CHECK(WIFSTOPPED(stopped));
  CHECK(WSTOPSIG(stopped) == SIGSTOP);
}

TEST_CASE("a text that is no failpoint is refused with the part and what was expected", "[core]") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"train.begin", "'train.begin': expected name=action"},
      {"nowhere=kill", "'nowhere=kill': no such failpoint; rankd --list-failpoints shows them"},
      {"train.begin=explode", "'explode': expected off, kill, stop, exit, sleep, error or p"},
      {"train.begin=", "'': expected off, kill, stop, exit, sleep, error or p"},
      {"train.begin=off->", "'': expected off, kill, stop, exit, sleep, error or p"},
      {"train.begin=exit(x)", "'exit(x)': 'x' is no number"},
      {"train.begin=exit(3", "'exit(3': expected ')' at the end"},
      {"train.begin=x*off", "'x*off': 'x' is no number"},
      {"train.begin=p(1)->off", "'p(1)': expected p(probability,seed)"},
      {"train.begin=p(1,2,3)->off", "'p(1,2,3)': expected p(probability,seed)"},
      {"train.begin=p(1,-2)->off", "'p(1,-2)': '-2' is no number"},
      {"train.begin@host=off", "'train.begin@host=off': expected @rankN or @epochN"},
      {"train.begin@rankx=off", "'train.begin@rankx=off': 'x' is no number"},
      {"train.begin@rank=off", "'train.begin@rank=off': '' is no number"},
      {"train.begin=error(what)", "'error(what)': expected enospc, eio or comm"},
      {"train.begin=error", "'error': expected enospc, eio or comm"}};
  for (const auto& [text, expected] : cases) {
    CAPTURE(text);
    CHECK_THROWS_AS(arm_failpoints(text, {0, 1}), UsageError);
    CHECK_THROWS_WITH(arm_failpoints(text, {0, 1}), std::string("DSL_FAILPOINTS: ") + expected);
  }
}

TEST_CASE("a wrong entry is refused although it is for another rank, and arms nothing", "[core]") {
  arm_failpoints("train.begin=off", {0, 1});
  CHECK_THROWS_AS(arm_failpoints("train.begin=error(eio);train.loaded@rank5=explode", {0, 1}),
                  UsageError);
  CHECK_NOTHROW(hit_failpoint("train.begin"));
}

TEST_CASE("blanks and empty entries between failpoints mean nothing", "[core]") {
  arm_failpoints(" ; train.begin @ rank0 = off -> 2*error(eio) -> off ;; train.loaded=off ; ",
                 {0, 1});
  CHECK_NOTHROW(hit_failpoint("train.begin"));
  CHECK_THROWS_AS(hit_failpoint("train.begin"), IoError);
  CHECK_THROWS_AS(hit_failpoint("train.begin"), IoError);
  CHECK_NOTHROW(hit_failpoint("train.begin"));
  arm_failpoints("train.begin=off", {0, 1});
}

TEST_CASE("the errors of failpoints name the place", "[core]") {
  arm_failpoints("train.begin=error(comm);train.loaded=error(enospc);train.planned=error(eio)",
                 {0, 1});
  CHECK_THROWS_WITH(hit_failpoint("train.begin"), "failpoint train.begin");
  CHECK_THROWS_WITH(hit_failpoint("train.loaded"),
                    Catch::Contains("failpoint train.loaded: No space left on device"));
  CHECK_THROWS_WITH(hit_failpoint("train.planned"),
                    Catch::Contains("failpoint train.planned: Input/output error"));
  arm_failpoints("train.begin=off", {0, 1});
}

TEST_CASE("a place that is named twice does what was said last", "[core]") {
  arm_failpoints("train.begin=error(eio);train.begin=error(comm)", {0, 1});
  CHECK_THROWS_AS(hit_failpoint("train.begin"), CommError);
  arm_failpoints("train.begin=off", {0, 1});
}

TEST_CASE("threads that pass one place share its count", "[core]") {
  arm_failpoints("train.begin=100*error(eio)->off", {0, 1});
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        try {
          hit_failpoint("train.begin");
        } catch (const IoError&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 100);
  arm_failpoints("train.begin=off", {0, 1});
}

}  // namespace
}  // namespace ds

#endif
