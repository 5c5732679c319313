// StagingRing: places on the host that copies to a device begin at, taken in turn. A place is
// written again when the copies that began there are done, so the host runs ahead of the device by
// as many copies as there are places, and waits for none of them before. Confined to one thread.
#pragma once

#include <cstddef>
#include <vector>

#include "core/device/stream.h"
#include "core/memory/host_block.h"

namespace ds {

class StagingRing {
 public:
  // Places of at least `bytes` each. `pinned` null: the heap, from which copies to a CUDA device
  // take what they need before they return.
  StagingRing(size_t bytes, int places, MemoryResource* pinned);
  ~StagingRing();                            // waits for all copies
  StagingRing(const StagingRing&) = delete;  // copies under way begin in it
  StagingRing& operator=(const StagingRing&) = delete;

  // When the place whose turn it is will be free.
  const Event& free_at() const { return copied_[turn_]; }
  // The place whose turn it is. Waits on the host for the copies that began there last.
  std::byte* take();
  // What copies from the place that take() gave is done at this event. Without it nothing is.
  void give_back(const Event& copied);

  // Both around one copy of `bytes` to the stream's device.
  void copy(const void* from, void* to, size_t bytes, Stream& stream);

 private:
  const size_t stride_;  // bytes from one place to the next
  std::vector<Event> copied_;
  size_t turn_ = 0;
  HostBlock block_;
};

}  // namespace ds
