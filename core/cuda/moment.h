// When a queue's work gets to a point, by the device's own clock. The build decides who tells, as
// it does for queues (queue.h).
#pragma once

#include <memory>

#include "core/cuda/queue.h"

namespace ds {

class QueueMoment {
 public:
  virtual ~QueueMoment() = default;
  // Both are of one device; waits until the work has come to both. Negative if this was first.
  virtual double seconds_since(QueueMoment& earlier) = 0;
};

// Behind what the queue was given so far, which must not be recorded.
std::shared_ptr<QueueMoment> mark_moment(DeviceQueue& queue);

}  // namespace ds
