// The emulated device's memory, as its queues see it (emulated.h is what others see).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ds::emulated {

// Work that waits in queues: as long as there is some, what was given back is not handed out again,
// because it may be for that.
void count_waiting_work(int64_t more);

// Copies to and from these are made when the queue comes to them, of other memory at once.
bool is_late(const void* at);

// For its lifetime device memory may be touched.
class Open {
 public:
  Open();
  ~Open();
  Open(const Open&) = delete;  // closes what it opened, exactly once
  Open& operator=(const Open&) = delete;
};

}  // namespace ds::emulated
