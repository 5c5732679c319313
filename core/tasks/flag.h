// A counter that threads and processes wait for: raised by those who are there, slept on by those
// who are early. Deadlines, dead peers and errors are the caller's.
//
// Nothing here yields: under newer Linux schedulers sched_yield() gives away what is left of the
// caller's slice, which beside a busy neighbour costs milliseconds each time; a sleep in the kernel
// keeps the place in the queue. The waits of the standard library's atomics yield four times before
// they sleep.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace ds {

inline constexpr size_t kCacheLine = 64;

// It wraps, may lie in memory that processes share, and is zero at first. Sleepers use the value's
// word as a futex.
struct alignas(kCacheLine) Flag {
  std::atomic<uint32_t> value;
  std::atomic<uint32_t> sleepers;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);

// Compares by signed distance, since counters wrap.
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

// Spins, then sleeps, until the flag has reached the target.
void wait_for(Flag& flag, uint32_t target, int spins);

}  // namespace ds
