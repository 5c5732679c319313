#include "launcher/epoch_plan.h"

#include "launcher/run_directory.h"
#include "tests/support/catch.h"
#include "tests/support/temporary_directory.h"

namespace ds {

TEST_CASE("the newest epoch of a run directory is that of its checkpoints or of its launches", "[launcher]") {
  const testing::TemporaryDirectory here;
  CHECK(newest_epoch(here.path()) == 0);
  CHECK(newest_epoch(here.path() / "gone") == 0);
  std::filesystem::create_directories(here.path() / "checkpoints");
  std::filesystem::create_directories(here.path() / "logs");
  write_whole_file(here.path() / "checkpoints/epoch", "7\n");
  CHECK(newest_epoch(here.path()) == 7);
  note_epoch(here.path(), 6);  // it opened no checkpoints in between
  CHECK(newest_epoch(here.path()) == 7);
  note_epoch(here.path(), 9);
  CHECK(newest_epoch(here.path()) == 9);
  for (const std::string junk : {"", "x", "-3", "9223372036854775807", "99999999999999999999"}) {
    CAPTURE(junk);
    write_whole_file(here.path() / "checkpoints/epoch", junk);
    CHECK(newest_epoch(here.path()) == 9);
  }
}

}  // namespace ds
