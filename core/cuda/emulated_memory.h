// The emulated device's memory, as its queues see it (emulated.h is what others see).
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/values/device.h"

namespace ds::emulated {

// Work that waits in queues: as long as there is some, what was given back is not handed out again,
// because it may be for that.
void count_waiting_work(int64_t more);

// Copies to and from these are made when the queue comes to them, of other memory at once.
bool is_late(const void* at);

// For its lifetime device memory may be touched by this thread, which does the work of a queue of
// that device.
class Open {
 public:
  explicit Open(Device device);
  ~Open();
  Open(const Open&) = delete;  // closes what it opened, exactly once
  Open& operator=(const Open&) = delete;

 private:
  int outer_;
};

}  // namespace ds::emulated
