// Raising a Flag and sleeping on one. Thin: deadlines, dead peers and errors are the caller's.
#pragma once

#include <chrono>
#include <cstdint>

#include "comm/shm/layout.h"

namespace ds::detail {

// Counters wrap, so "reached" is by signed distance.
inline bool reached(uint32_t value, uint32_t target) {
  return static_cast<int32_t>(value - target) >= 0;
}
inline bool reached(const Flag& flag, uint32_t target) {
  return reached(flag.value.load(std::memory_order_acquire), target);
}

void raise(Flag& flag, uint32_t value);  // release; wakes the sleepers
void wake_all(Flag& flag) noexcept;      // without changing it: sleepers look round and sleep again

// Spins up to `spins` times; true when the flag reached the target.
bool spin_until(const Flag& flag, uint32_t target, int spins);

// Sleeps until the flag moves, is woken, or the time is up; may return early.
void sleep_on(Flag& flag, uint32_t target, std::chrono::nanoseconds limit);

}  // namespace ds::detail
