// Which ends of a rank are a lack of room, and when there is room again.
#include "launcher/decide/ending/room.h"

#include "core/status/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

Failure ended_with(ExitCode code, const std::string& words) {
  return {0, Failure::Kind::kExit, static_cast<int>(code), Blame::kOwn, words, {}, 3};
}

TEST_CASE("a disk without room is told from one that fails", "[launcher]") {
  for (const char* const words :
       {"write /run/a: No space left on device (0 of 100 bytes are free there)",
        "write /run/a: Disk quota exceeded (a quota of this user or project, not the disk)"}) {
    CAPTURE(words);
    const auto lack = lack_of_room(ended_with(ExitCode::kStorage, words));
    REQUIRE(lack);
    CHECK_FALSE(lack->need);
    CHECK_FALSE(lack_of_room(ended_with(ExitCode::kBadData, words)));
  }
  const auto lack = lack_of_room(
      ended_with(ExitCode::kStorage, "save global_step3: need=2097152 free=100 bytes in /run"));
  REQUIRE(lack);
  CHECK(lack->need == 2097152);
  CHECK_FALSE(lack_of_room(ended_with(ExitCode::kStorage, "read /run/a: Input/output error")));
  Failure killed = ended_with(ExitCode::kStorage, "No space left on device");
  killed.kind = Failure::Kind::kSignal;
  CHECK_FALSE(lack_of_room(killed));
  const auto odd = lack_of_room(ended_with(ExitCode::kStorage, "save x: need=much free=0"));
  REQUIRE(odd);
  CHECK_FALSE(odd->need);
}

TEST_CASE("room has come where every rank can write what it needs", "[launcher]") {
  const LackOfRoom lack{.need = 1000};
  CHECK_FALSE(room_has_come(lack, 2, 10, 1999));
  CHECK(room_has_come(lack, 2, 10, 2000));
  CHECK(room_has_come(lack, 1, 10, 1000));
}

TEST_CASE("where nobody knows the need, markedly more must be free", "[launcher]") {
  constexpr int64_t kMiB = 1 << 20;
  CHECK_FALSE(room_has_come({}, 2, 0, 0));
  CHECK_FALSE(room_has_come({}, 2, 4096, 8192));
  CHECK(room_has_come({}, 2, 4096, 4096 + kMiB));
  CHECK_FALSE(room_has_come({}, 2, 160 * kMiB, 165 * kMiB));
  CHECK(room_has_come({}, 2, 160 * kMiB, 170 * kMiB));
  CHECK_FALSE(room_has_come({}, 2, 4 * kMiB, 0));
}

}  // namespace
}  // namespace ds
