// A point in a stream's work with the time at which it is reached: on a CPU, where work is done as
// it is given, the time at which it was marked; on a device the time by its own clock, which is
// known once the work has come there. How long work takes is told without a wait on the way.
#pragma once

#include <chrono>
#include <memory>

#include "core/cuda/moment.h"
#include "core/device/stream.h"

namespace ds {

class StreamMoment {
 public:
  using Clock = std::chrono::steady_clock;

  StreamMoment() = default;  // the beginning of time
  static StreamMoment of_host() { return StreamMoment(Clock::now()); }
  // A stream that is recorded has no time: its moments are the host's.
  static StreamMoment of(Stream& stream) {
    StreamMoment moment = of_host();
    const bool on_device = stream.device().kind == Device::Kind::kCuda;
    if (on_device && !stream.is_recorded()) moment.in_queue_ = mark_moment(stream.queue());
    return moment;
  }

  // Both are moments of one stream, or of streams of one device; waits for the device.
  double seconds_since(const StreamMoment& earlier) const {
    if (in_queue_ && earlier.in_queue_) return in_queue_->seconds_since(*earlier.in_queue_);
    return std::chrono::duration<double>(at_ - earlier.at_).count();
  }
  Clock::time_point given_at() const { return at_; }  // when it was marked, on the host

 private:
  explicit StreamMoment(Clock::time_point at) : at_(at) {}

  Clock::time_point at_{};
  std::shared_ptr<QueueMoment> in_queue_;  // null but on devices
};

}  // namespace ds
