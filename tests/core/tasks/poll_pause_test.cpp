#include "core/tasks/poll_pause.h"

#include "tests/support/catch.h"

namespace ds {

TEST_CASE("a poll pauses a quarter of what was waited, and not at first nor for long", "[core]") {
  using namespace std::chrono_literals;
  CHECK(pause_after(0ns) == 0ns);
  CHECK(pause_after(199us) == 0ns);
  CHECK(pause_after(200us) == 50us);
  CHECK(pause_after(4ms) == 1ms);
  CHECK(pause_after(8ms) == 2ms);
  CHECK(pause_after(60s) == 2ms);
}

}  // namespace ds
