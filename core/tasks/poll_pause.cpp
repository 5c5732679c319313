#include "core/tasks/poll_pause.h"

#include <algorithm>
#include <thread>

namespace ds {

std::chrono::nanoseconds pause_after(std::chrono::nanoseconds waited) {
  constexpr std::chrono::nanoseconds kNoPause = std::chrono::microseconds(200);
  constexpr std::chrono::nanoseconds kLongest = std::chrono::milliseconds(2);
  return waited < kNoPause ? std::chrono::nanoseconds(0) : std::min(waited / 4, kLongest);
}

void pause(std::chrono::nanoseconds waited) {
  if (const auto time = pause_after(waited); time.count() != 0) std::this_thread::sleep_for(time);
}

}  // namespace ds
