#include "rankd/control/report_queue.h"

#include <algorithm>
#include <random>

#include "tests/support/catch.h"

namespace ds {
namespace {

control::RankMessage step(int64_t number) {
  control::RankMessage out;
  out.mutable_step()->set_step(number);
  return out;
}

std::vector<uint64_t> numbers(const std::vector<control::RankMessage>& messages) {
  std::vector<uint64_t> out;
  for (const control::RankMessage& message : messages) out.push_back(message.sequence());
  return out;
}

using Numbers = std::vector<uint64_t>;

}  // namespace

TEST_CASE("reports are numbered, and sent once over a stream that goes", "[rankd]") {
  ReportQueue queue(100);
  CHECK(queue.all_acknowledged());
  for (int64_t i = 1; i <= 3; ++i) queue.add(step(i));
  CHECK(numbers(queue.take_unsent()) == Numbers{1, 2, 3});
  CHECK(queue.take_unsent().empty());
  queue.add(step(4));
  CHECK(queue.has_unsent());
  CHECK(numbers(queue.take_unsent()) == Numbers{4});
  CHECK_FALSE(queue.all_acknowledged());
  queue.acknowledged(4);
  CHECK(queue.all_acknowledged());
}

TEST_CASE("over a new stream goes what was not acknowledged", "[rankd]") {
  ReportQueue queue(100);
  for (int64_t i = 1; i <= 5; ++i) queue.add(step(i));
  queue.take_unsent();
  queue.acknowledged(2);
  queue.acknowledged(1);  // late
  queue.rewind();
  CHECK(numbers(queue.take_unsent()) == Numbers{3, 4, 5});
  queue.acknowledged(3);
  queue.add(step(6));
  CHECK(numbers(queue.take_unsent()) == Numbers{6});
}

TEST_CASE("when too many wait, the oldest steps make room, and nothing else does", "[rankd]") {
  ReportQueue queue(3);
  queue.add(step(1));
  control::RankMessage commit;
  commit.mutable_commit()->set_step(1);
  queue.add(commit);
  queue.add(step(2));
  queue.take_unsent();
  queue.add(step(3));
  CHECK(queue.dropped() == 1);
  CHECK(numbers(queue.take_unsent()) == Numbers{4});
  queue.rewind();
  CHECK(numbers(queue.take_unsent()) == Numbers{2, 3, 4});
  for (int i = 0; i < 10; ++i) queue.add(commit);
  CHECK(queue.dropped() == 3);
  queue.rewind();
  CHECK(queue.take_unsent().size() == 11);
}

// Whatever streams break and whatever is acknowledged, over each stream goes everything that is not
// acknowledged, in order and without a gap.
TEST_CASE("no report is lost or out of order over streams that break anywhere", "[rankd]") {
  std::mt19937 random(21);
  for (int round = 0; round < 100; ++round) {
    ReportQueue queue(1000);
    uint64_t added = 0;
    uint64_t acknowledged = 0;
    uint64_t sent = 0;  // over the stream at hand
    for (int event = 0; event < 60; ++event) {
      switch (random() % 4) {
        case 0:
          queue.add(step(static_cast<int64_t>(++added)));
          break;
        case 1: {
          const Numbers out = numbers(queue.take_unsent());
          Numbers expected;
          for (uint64_t n = std::max(sent, acknowledged) + 1; n <= added; ++n)
            expected.push_back(n);
          REQUIRE(out == expected);
          sent = added;
          break;
        }
        case 2:
          if (sent > 0) acknowledged = std::max(acknowledged, random() % (sent + 1));
          queue.acknowledged(acknowledged);
          break;
        default:
          queue.rewind();
          sent = acknowledged;
          break;
      }
      REQUIRE(queue.waiting().size() == added - acknowledged);
      REQUIRE(queue.has_unsent() == (std::max(sent, acknowledged) < added));
      REQUIRE(queue.all_acknowledged() == (acknowledged == added));
    }
    CHECK(queue.dropped() == 0);
  }
}

}  // namespace ds
