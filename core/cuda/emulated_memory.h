// The emulated device's memory, as its queues and what they run see it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/values/device.h"

namespace ds::emulated {

// All devices are one: their memory resources can have so many bytes in all.
inline constexpr size_t kDeviceBytes = size_t{512} << 20;

// For a queue's work alone: what all allocated blocks hold, and that put back.
using Contents = std::vector<std::vector<std::byte>>;
Contents contents();
void restore(const Contents& before);

// InternalError, in the words of `culprit`, where somebody wrote behind the end of a block.
void check_edges(std::string_view culprit);

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
