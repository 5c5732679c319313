#include "train/step/pace.h"

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

using Moves = std::vector<std::string>;

// Carries the moves out: "b3" step 3 begun, "t3" its result taken, "|3" nothing under way after it.
Moves moves_of(StepsUnderWay steps, const std::function<bool(int64_t)>& needed) {
  Moves moves;
  for (;;) {
    switch (next_move(steps, needed(steps.begun) ? Edge::kNeeded : Edge::kPassed)) {
      case StepMove::kBegin:
        moves.push_back(fmt::format("b{}", ++steps.begun));
        break;
      case StepMove::kTakeResult:
        moves.push_back(fmt::format("t{}", ++steps.known));
        if (steps.begun == steps.known) moves.push_back(fmt::format("|{}", steps.known));
        break;
      case StepMove::kEnd:
        return moves;
    }
  }
}

TEST_CASE("results that are there at once are taken before the next step begins", "[train]") {
  for (const bool needed : {false, true}) {
    CHECK(moves_of({.begun = 4, .known = 4, .last = 6, .late = 0},
                   [&](int64_t) { return needed; }) == Moves{"b5", "t5", "|5", "b6", "t6", "|6"});
  }
}

TEST_CASE("results that come late are taken after the next step has begun", "[train]") {
  CHECK(moves_of({.last = 4, .late = 1}, [](int64_t) { return false; }) ==
        Moves{"b1", "b2", "t1", "b3", "t2", "b4", "t3", "t4", "|4"});
}

TEST_CASE("no step is under way at an edge that is needed", "[train]") {
  CHECK(moves_of({.last = 5, .late = 1}, [](int64_t step) { return step == 3; }) ==
        Moves{"b1", "b2", "t1", "b3", "t2", "t3", "|3", "b4", "b5", "t4", "t5", "|5"});
  CHECK(moves_of({.begun = 3, .known = 3, .last = 4, .late = 1}, [](int64_t) { return true; }) ==
        Moves{"b4", "t4", "|4"});
}

TEST_CASE("what turns out with a result waits for the step that is under way", "[train]") {
  // As commands do, which ranks agree on with the results of a step.
  StepsUnderWay steps{.begun = 2, .known = 1, .last = 9, .late = 1};
  CHECK(next_move(steps, Edge::kPassed) == StepMove::kBegin);
  CHECK(next_move(steps, Edge::kNeeded) == StepMove::kTakeResult);
  steps.known = 2;
  CHECK(next_move(steps, Edge::kNeeded) == StepMove::kBegin);
}

TEST_CASE("a run without steps left ends at once", "[train]") {
  for (const int64_t done : {3, 4}) {
    CHECK(next_move({.begun = done, .known = done, .last = 3, .late = 1}, Edge::kPassed) ==
          StepMove::kEnd);
  }
}

TEST_CASE("whatever is needed, every step is begun and taken once, in order", "[train]") {
  std::mt19937 numbers(3);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const int late = trial % 3;
    const int64_t last = 1 + static_cast<int64_t>(numbers() % 12);
    std::set<int64_t> needed{last};
    for (int i = trial % 5; i > 0; --i) needed.insert(static_cast<int64_t>(numbers() % 12));
    int64_t begun = 0, taken = 0;
    std::set<int64_t> edges;
    for (const std::string& move :
         moves_of({.last = last, .late = late}, [&](int64_t s) { return needed.contains(s); })) {
      const int64_t step = std::stoll(move.substr(1));
      if (move.front() == 'b') REQUIRE(step == ++begun);
      if (move.front() == 't') REQUIRE(step == ++taken);
      if (move.front() == '|') edges.insert(step);
      REQUIRE(begun - taken <= late + 1);
    }
    CHECK(begun == last);
    CHECK(taken == last);
    for (const int64_t edge : needed) CHECK((edges.contains(edge) || edge == 0 || edge > last));
  }
}

}  // namespace
}  // namespace ds
