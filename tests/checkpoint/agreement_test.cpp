// What ranks tell each other around a save: votes and traces as they travel, and that all of them
// take the same way when one of them fails.
#include "checkpoint/hosts/agreement.h"

#include <mutex>
#include <set>

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using namespace ds::test;

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

TEST_CASE("when one rank fails all of them stop, the others as peers", "[checkpoint]") {
  std::mutex mutex;
  std::set<int> peers, failed;
  run_ranks(3, [&](Communicator& comm) {
    RankStream rank(comm);
    const std::string error = comm.rank() == 1 ? "no space" : "";
    try {
      agree_on_success("save", error, comm, rank.stream);
      throw InternalError("nobody noticed");
    } catch (const PeerIoError& failure) {
      require(std::string(failure.what()).starts_with("save: rank 1 on "), "{}", failure.what());
      const std::lock_guard lock(mutex);
      peers.insert(comm.rank());
    } catch (const IoError& failure) {
      require(std::string(failure.what()).ends_with(": no space"), "{}", failure.what());
      const std::lock_guard lock(mutex);
      failed.insert(comm.rank());
    }
  });
  CHECK(peers == std::set<int>{0, 2});
  CHECK(failed == std::set<int>{1});
}

TEST_CASE("when no rank fails all of them go on", "[checkpoint]") {
  run_ranks(3, [](Communicator& comm) {
    RankStream rank(comm);
    agree_on_success("save", "", comm, rank.stream);
    agree_on_success("save", "", comm, rank.stream);
  });
}

TEST_CASE("lists of different lengths are gathered by rank", "[checkpoint]") {
  run_ranks(4, [](Communicator& comm) {
    RankStream rank(comm);
    const std::vector<int64_t> mine(static_cast<size_t>(comm.rank()), 10 * comm.rank());
    const auto all = gather_lists(mine, comm, rank.stream);
    require(all.size() == 4, "{} lists", all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      require(all[i] == std::vector<int64_t>(i, static_cast<int64_t>(10 * i)), "list {}", i);
    }
    const auto none = gather_lists(std::vector<int64_t>{}, comm, rank.stream);
    require(none == std::vector<std::vector<int64_t>>(4), "lists out of nothing");
  });
}

TEST_CASE("what goes wrong in a part of one's own is told in words", "[checkpoint]") {
  CHECK(failure_of([] {}).empty());
  CHECK(failure_of([] { throw DataError("is odd"); }) == "is odd");
  CHECK_THROWS_AS(failure_of([] { throw std::logic_error("not ours"); }), std::logic_error);
}
