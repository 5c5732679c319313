// Time as an argument: decisions take a Clock, so that tests and the simulator own time.
#pragma once

#include <chrono>
#include <cstdint>

namespace ds {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() const = 0;  // monotonic
};

class MonotonicClock final : public Clock {
 public:
  int64_t now_ns() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

class ManualClock final : public Clock {
 public:
  int64_t now_ns() const override { return now_ns_; }
  void advance(std::chrono::nanoseconds by) { now_ns_ += by.count(); }

 private:
  int64_t now_ns_ = 0;
};

inline constexpr double kMillisecond = 1e-3;  // in seconds

// This goes by the machine's own clock, for what is reported and decides nothing.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace ds
