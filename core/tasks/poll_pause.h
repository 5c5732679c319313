// How long a loop that can only poll waits between two looks. Nothing here yields, for the reason
// that core/tasks/flag.h gives.
#pragma once

#include <chrono>

namespace ds {

// What has been waited for so long comes as a rule within a moment, or else not soon: first without
// a pause, then a quarter of the time so far, so that no wait gets longer by more than that (pure).
std::chrono::nanoseconds pause_after(std::chrono::nanoseconds waited);

// Sleeps so long, if at all.
void pause(std::chrono::nanoseconds waited);

}  // namespace ds
