// What ranks tell each other around a save: votes and traces as they travel.
#include "checkpoint/hosts/agreement.h"

#include "tests/support/catch.h"

using namespace ds;

TEST_CASE("a vote travels whole and comes back as that of its rank", "[checkpoint]") {
  std::vector<WireVote> all(3);
  for (int rank = 0; rank < 3; ++rank) {
    all[static_cast<size_t>(rank)].vote({.name = pieces_file_name(rank),
                                         .rank = rank,
                                         .epoch = 99,
                                         .bytes = (int64_t{1} << 40) + rank,
                                         .digest = std::string(32, static_cast<char>('a' + rank))});
  }
  CHECK(first_failure(all).empty());
  const std::vector<FileVote> votes = votes_of(all, 7);
  REQUIRE(votes.size() == 3);
  for (int rank = 0; rank < 3; ++rank) {
    const FileVote& vote = votes[static_cast<size_t>(rank)];
    CHECK(vote.name == pieces_file_name(rank));
    CHECK(vote.rank == rank);
    CHECK(vote.epoch == 7);
    CHECK(vote.bytes == (int64_t{1} << 40) + rank);
    CHECK(vote.digest == std::string(32, static_cast<char>('a' + rank)));
  }
}

TEST_CASE("a rank that failed after it had voted has failed", "[checkpoint]") {
  WireVote vote;
  vote.vote({.name = pieces_file_name(0), .rank = 0, .epoch = 1, .bytes = 4096, .digest = "d"});
  vote.fail("the disk is full");
  CHECK_THAT(first_failure({vote}),
             Catch::StartsWith("rank 0 on ") && Catch::EndsWith(": the disk is full"));
}

TEST_CASE("of several failures the lowest rank's is told", "[checkpoint]") {
  std::vector<WireVote> all(4);
  for (WireVote& vote : all) vote.bytes = 0;
  CHECK(first_failure(all).empty());
  all[3].fail("late");
  all[1].fail("early");
  CHECK_THAT(first_failure(all), Catch::StartsWith("rank 1 on ") && Catch::EndsWith(": early"));
}

TEST_CASE("a rank that never said anything counts as failed", "[checkpoint]") {
  CHECK_THAT(first_failure(std::vector<WireVote>(1)), Catch::StartsWith("rank 0 on "));
}

TEST_CASE("words that are too long are cut, and never run into what lies behind them",
          "[checkpoint]") {
  WireVote vote;
  vote.fail(std::string(5000, 'x'));
  CHECK_THAT(first_failure({vote}), Catch::EndsWith(": " + std::string(399, 'x')));
  const RejectedTag trace{std::string(300, 'n'), 5, std::string(3000, 'w'), 2};
  const RejectedTag back = from_wire(to_wire(trace));
  CHECK(back.name == std::string(159, 'n'));
  CHECK(back.why == std::string(1023, 'w'));
  CHECK(back.step == 5);
  CHECK(back.begun_in == 2);
}

TEST_CASE("a trace travels with what is known of it", "[checkpoint]") {
  for (const auto& step :
       {std::optional<int64_t>(), std::optional<int64_t>(0), std::optional<int64_t>(12)}) {
    for (const auto& begun : {std::optional<int64_t>(), std::optional<int64_t>(0)}) {
      const RejectedTag back = from_wire(to_wire({"global_step12", step, "is odd", begun}));
      CHECK(back.name == "global_step12");
      CHECK(back.step == step);
      CHECK(back.begun_in == begun);
      CHECK(back.why == "is odd");
    }
  }
}
