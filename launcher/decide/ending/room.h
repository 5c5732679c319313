// Whether a rank ended because a disk had no room, and whether room has come since (pure).
#pragma once

#include <cstdint>
#include <optional>

#include "launcher/decide/watch/membership.h"

namespace ds {

struct LackOfRoom {
  // Bytes that one rank was about to write, where its words tell; else it noticed while it wrote.
  std::optional<int64_t> need{};
};

// Recognises a lack of room by the words of core/files/file.h and checkpoint/writer.h; returns
// nothing for every other failure.
std::optional<LackOfRoom> lack_of_room(const Failure& cause);

// Whether as much is free now that `ranks` can write what they need, or, where that is not known,
// markedly more than right after the failure.
bool room_has_come(const LackOfRoom& lack, int ranks, int64_t free_then, int64_t free_now);

}  // namespace ds
