#include "rankd/control/pressure_words.h"

#include "tests/support/catch.h"

namespace ds {
namespace {

constexpr PressureWords::TimePoint kStart{};
using std::chrono::seconds;

TEST_CASE("memory pressure: everyday waits are not worth a word") {
  PressureWords words;
  CHECK(words
            .look(kStart,
                  {.whose = "the machine", .stalled_percent = 24.9, .high = {}, .high_events = {}})
            .empty());
}

TEST_CASE("memory pressure: memory.high is named with its number, and not every time") {
  PressureWords words;
  const MemoryPressure pressure{
      .whose = "cgroup /job", .stalled_percent = 63.2, .high = 536870912, .high_events = 123};
  CHECK(words.look(kStart, pressure) ==
        "memory is short: in the last 10 s nothing of cgroup /job ran for 63 % of the time, "
        "waiting for memory (its "
        "memory.high of 536870912 bytes was exceeded 123 times); the run goes on, as slowly as "
        "that. Raise memory.high, "
        "or use a smaller micro-batch, a higher ZeRO stage or more ranks");
  CHECK(words.look(kStart + seconds(59), pressure).empty());
  CHECK_FALSE(words.look(kStart + seconds(60), pressure).empty());
}

TEST_CASE("memory pressure: without memory.high it is the machine's") {
  PressureWords words;
  const std::string said = words.look(
      kStart, {.whose = "the machine", .stalled_percent = 80, .high = {}, .high_events = {}});
  CHECK(said.find("nothing of the machine ran for 80 % of the time, waiting for memory;") !=
        std::string::npos);
  CHECK(said.find("End what else uses memory there") != std::string::npos);
}

TEST_CASE("memory pressure: the kernel's text") {
  CHECK(full_stall_percent("some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n"
                           "full avg10=12.34 avg60=0.50 avg300=0.00 total=7\n") == 12.34);
  CHECK_FALSE(full_stall_percent("some avg10=1.00 avg60=0.00 avg300=0.00 total=0\n"));
  CHECK_FALSE(full_stall_percent("full avg10=\n"));
  CHECK_FALSE(full_stall_percent("notfull avg10=3\n"));
  const std::optional<MemoryPressure> here = memory_pressure();
  if (!here) return;  // this kernel counts none
  CHECK_FALSE(here->whose.empty());
  CHECK(here->stalled_percent >= 0);
}

}  // namespace
}  // namespace ds
