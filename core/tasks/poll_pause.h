// How long a loop that can only poll waits between two looks (pure, but for pause()). Nothing here
// yields, for the reason that core/tasks/flag.h gives.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace ds {

// What has been waited for so long comes as a rule within a moment, or else not soon: first without
// a pause, then a quarter of the time so far, so that no wait gets longer by more than that.
inline std::chrono::nanoseconds pause_after(std::chrono::nanoseconds waited) {
  constexpr std::chrono::nanoseconds kNoPause = std::chrono::microseconds(200);
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
  return waited < kNoPause ? std::chrono::nanoseconds(0) : std::min(waited / 4, kLongest);
}

// Sleeps so long, if at all.
inline void pause(std::chrono::nanoseconds waited) {
  if (const auto time = pause_after(waited); time.count() != 0) std::this_thread::sleep_for(time);
}

}  // namespace ds
