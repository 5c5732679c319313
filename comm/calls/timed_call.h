// How long each call of a group took, for those who ask: the communication log, the parts of a
// step, traces.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/contract/operation.h"
#include "core/device/stream_moment.h"

namespace ds {

struct TimedCall {
  std::string axis;  // the group's
  CommOp op = CommOp::kBarrier;
  int64_t bytes = 0;  // of the whole tensor
  int ranks = 1;      // in the group
  std::string label;  // the stream's: "transformer.h.3"
  StreamMoment begin, end;
};

class CallTimes {
 public:
  virtual ~CallTimes() = default;
  virtual bool is_on() const = 0;  // else nobody looks at the clock
  // After a call that did not fail, on the thread that made it. Calls of a recorded graph are not
  // told: nobody makes them.
  virtual void on_call(TimedCall call) = 0;
};

// Keeps calls until they are taken. Thread-safe.
class CallQueue final : public CallTimes {
 public:
  bool is_on() const override { return is_on_; }
  void turn(bool on) { is_on_ = on; }
  void on_call(TimedCall call) override {
    const std::lock_guard lock(calls_mutex_);
    calls_.push_back(std::move(call));
  }
  std::vector<TimedCall> take() {
    const std::lock_guard lock(calls_mutex_);
    return std::exchange(calls_, {});
  }

 private:
  std::atomic<bool> is_on_ = false;
  std::mutex calls_mutex_;  // guards what follows
  std::vector<TimedCall> calls_;
};

}  // namespace ds
