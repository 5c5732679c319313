// Commands act at the same step edge on every rank, whenever each of them sees them.
#include "rankd/step_commands.h"

#include "rankd/control/thread_dump.h"
#include "tests/support/catch.h"

namespace ds {

TEST_CASE("ranks act on the commands that any of them has seen", "[rankd]") {
  std::deque<Command> early{Command::kSaveNow, Command::kPause};
  std::deque<Command> late;
  const auto source = [](std::deque<Command>& from) {
    return [&from]() -> std::optional<Command> {
      if (from.empty()) return std::nullopt;
      const Command command = from.front();
      from.pop_front();
      return command;
    };
  };
  StepCommands first(source(early), [] { FAIL("the first rank has all it needs"); });
  int pauses = 0;
  StepCommands second(source(late), [&] {  // they come in their time
    late.push_back(pauses++ == 0 ? Command::kSaveNow : Command::kPause);
  });
  const int64_t agreed = std::max(first.seen(), second.seen());
  REQUIRE(agreed == 2);
  CHECK_FALSE(first.due());
  first.agree(agreed);
  second.agree(agreed);
  for (StepCommands* rank : {&first, &second}) {
    CHECK(rank->due());
    CHECK(rank->next() == Command::kSaveNow);
    CHECK(rank->next() == Command::kPause);
    CHECK_FALSE(rank->due());
    CHECK_FALSE(rank->next());
  }
  CHECK(pauses == 2);
  early.push_back(Command::kResume);
  CHECK(first.wait() == Command::kResume);
  CHECK(first.seen() == 3);
  first.agree(3);
  CHECK_FALSE(first.next());  // it is done already
}

TEST_CASE("a dump has the frames of every thread", "[rankd]") {
  prepare_thread_dumps();
  const std::string text = thread_dump();
  CHECK_THAT(text, Catch::Contains("  thread ") && Catch::Contains("    "));
  CHECK(text.find("did not note") == std::string::npos);
  CHECK_THAT(thread_dump(), Catch::Contains("thread"));  // and again
}

}  // namespace ds
