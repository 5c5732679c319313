#include "rankd/report_queue.h"

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

}  // namespace ds
