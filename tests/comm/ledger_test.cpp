#include "comm/ledger.h"

#include "comm/traced_comm.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using ds::test::RankStream;
using ds::test::run_ranks;

TEST_CASE("a ledger keeps the newest entries, oldest first", "[comm]") {
  ManualClock clock;
  Ledger ledger(3, clock);
  for (int i = 1; i <= 5; ++i) {
    const uint64_t number = ledger.enter("data", static_cast<uint64_t>(i), CommOp::kAllReduce,
                                         10 * i, fmt::format("layer {}", i));
    clock.advance(std::chrono::nanoseconds(7));
    if (i != 5) ledger.exit(number);
  }
  const auto entries = ledger.entries();
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].number == 3);
  CHECK(entries[0].exit_ns - entries[0].enter_ns == 7);
  CHECK(entries[2].exit_ns == -1);
  CHECK(ledger.to_text() ==
        "3 data #3 all_reduce bytes=30 enter_ns=14 took_ns=7 for layer 3\n"
        "4 data #4 all_reduce bytes=40 enter_ns=21 took_ns=7 for layer 4\n"
        "5 data #5 all_reduce bytes=50 enter_ns=28 inside for layer 5\n");
}

TEST_CASE("an exit whose entry the ring has overwritten is ignored", "[comm]") {
  ManualClock clock;
  Ledger ledger(1, clock);
  const uint64_t first = ledger.enter("data", 1, CommOp::kBarrier, 0, "");
  ledger.enter("data", 2, CommOp::kBarrier, 0, "");
  ledger.exit(first);
  CHECK(ledger.entries().at(0).exit_ns == -1);
}

TEST_CASE("a failed collective stays inside in the ledger and is not counted", "[comm]") {
  ManualClock clock;
  Ledger ledger(8, clock);
  CommVolume volume;
  REQUIRE_THROWS_AS(run_ranks(2,
                              [&](Communicator& comm) {
                                if (comm.rank() == 1) throw CommError("gone");
                                auto inner = comm.split(0, 0);
                              }),
                    CommError);
  auto group = make_thread_group(2);
  group[1].reset();
  TracedComm traced(std::move(group[0]), "data", {&volume, &ledger});
  REQUIRE_THROWS_AS(traced.barrier(), CommError);
  CHECK(ledger.entries().at(0).exit_ns == -1);
  CHECK(volume.totals().empty());
}

TEST_CASE("without a device the newest entry is where the rank is, also behind a failed one",
          "[comm]") {
  ManualClock clock;
  Ledger ledger(4, clock);
  CHECK_FALSE(ledger.current());
  ledger.enter("data", 1, CommOp::kAllReduce, 4, "");
  const uint64_t done = ledger.enter("host", 1, CommOp::kBarrier, 0, "");
  clock.advance(std::chrono::nanoseconds(3));
  ledger.exit(done, Event());  // reached from the beginning, as those of CPUs are
  REQUIRE(ledger.current());
  CHECK(ledger.current()->group == "host");
  CHECK(ledger.current()->exit_ns == 3);
  CHECK(ledger.entries().at(0).exit_ns == -1);
}

TEST_CASE("wire bytes follow the formulas", "[comm]") {
  CHECK(wire_bytes(CommOp::kAllReduce, 4, 1000) == 1500);
  CHECK(wire_bytes(CommOp::kAllGather, 4, 1000) == 750);
  CHECK(wire_bytes(CommOp::kReduceScatter, 4, 1000) == 750);
  CHECK(wire_bytes(CommOp::kAllToAll, 4, 1000) == 750);
  CHECK(wire_bytes(CommOp::kBroadcast, 4, 1000) == 1000);
  CHECK(wire_bytes(CommOp::kSend, 4, 1000) == 1000);
  CHECK(wire_bytes(CommOp::kRecv, 4, 1000) == 0);
  CHECK(wire_bytes(CommOp::kAllReduce, 1, 1000) == 0);
}
