// DeviceQueue: what a stream of a CUDA device has and one of the CPU does without: an ordered queue
// of work that runs while the host goes on. The build decides who implements it (DS_WITH_CUDA): the
// CUDA runtime, the emulated device (emulated.h), or nobody, and then streams of such a device are
// refused.
#pragma once

#include <cstddef>
#include <memory>

#include "core/values/device.h"

namespace ds {

// A point in a queue's work.
class QueueEvent {
 public:
  virtual ~QueueEvent() = default;
  virtual bool ready() = 0;
  virtual void wait_on_host() = 0;
};

class DeviceQueue;

// Work that was recorded and not done, for any number of times. It keeps the addresses and the
// values that it was given, and no memory alive.
class QueueGraph {
 public:
  virtual ~QueueGraph() = default;
  // Gives it to a queue of its device, as one piece of work. One launch follows the other.
  virtual void launch(DeviceQueue& queue) = 0;
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

  // From here on what the queue is given is recorded and not done, and so it is with every queue of
  // the device that waits for an event of it, from there on. Until the end the host may not wait
  // for any of this, nothing may wait for what was given before, and host memory that is copied has
  // to be pinned: it is read and written when the graph runs. What is refused says so ("graph:
  // ...", capture.h) and changes nothing. One thread does it all.
  virtual void begin_capture() = 0;
  // Queues that joined have to have been waited for. The recording is over also where this throws.
  virtual std::unique_ptr<QueueGraph> end_capture() = 0;
  // Forgets what was recorded. Nothing where this queue did not begin a capture.
  virtual void abandon_capture() noexcept = 0;
  // It takes part in a capture: what it is given now is recorded and not done.
  virtual bool is_recorded() const = 0;
};

// Unsupported without CUDA in the build, naming the build option.
std::unique_ptr<DeviceQueue> make_device_queue(Device device);

}  // namespace ds
