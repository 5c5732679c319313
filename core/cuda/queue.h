// DeviceQueue: what a stream of a CUDA device has and one of the CPU does without: an ordered queue
// of work that runs while the host goes on. The build decides who implements it (DS_WITH_CUDA): the
// CUDA runtime, the emulated device (emulated.h), or nobody, and then streams of such a device are
// refused.
#pragma once

#include <cstddef>
#include <memory>

#include "core/device.h"

namespace ds {

// A point in a queue's work.
class QueueEvent {
 public:
  virtual ~QueueEvent() = default;
  virtual bool ready() = 0;
  virtual void wait_on_host() = 0;
};

class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  virtual std::shared_ptr<QueueEvent> mark() = 0;
  // What is given to the queue from now on begins after the event.
  virtual void wait(const std::shared_ptr<QueueEvent>& event) = 0;
  // As Stream::copy and Stream::fill_bytes. Host memory that is not pinned has been read when
  // copy() returns, and has been written, too.
  virtual void copy(const void* from, void* to, size_t bytes) = 0;
  virtual void fill_bytes(void* to, int value, size_t bytes) = 0;
  virtual void* native() const = 0;  // cudaStream_t; null where there is none
};

// Unsupported without CUDA in the build, naming the build option.
std::unique_ptr<DeviceQueue> make_device_queue(Device device);

}  // namespace ds
