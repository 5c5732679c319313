#include "core/tasks/flag.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>

namespace ds {
namespace {

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace

void wake_all(Flag& flag) noexcept {
  // Not FUTEX_PRIVATE: the sleepers may be other processes. A failed wake costs them the limit of
  // their sleep.
  (void)syscall(SYS_futex, &flag.value, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void raise(Flag& flag, uint32_t value) {
  // Sequentially consistent on both sides: either we see the sleeper, or it sees the new value.
  flag.value.store(value, std::memory_order_seq_cst);
  if (flag.sleepers.load(std::memory_order_seq_cst) != 0) wake_all(flag);
}

bool spin_until(const Flag& flag, uint32_t target, int spins) {
  for (int i = 0; i < spins; ++i) {
    if (reached(flag, target)) return true;
    pause_cpu();
  }
  return reached(flag, target);
}

void sleep_on(Flag& flag, uint32_t target, std::chrono::nanoseconds limit) {
  flag.sleepers.fetch_add(1, std::memory_order_seq_cst);
  const uint32_t seen = flag.value.load(std::memory_order_seq_cst);
  if (!reached(seen, target)) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(limit);
    const timespec time{static_cast<time_t>(seconds.count()),
                        static_cast<long>((limit - seconds).count())};
    // EAGAIN, EINTR and ETIMEDOUT all mean: look again.
    (void)syscall(SYS_futex, &flag.value, FUTEX_WAIT, seen, &time, nullptr, 0);
  }
  flag.sleepers.fetch_sub(1, std::memory_order_seq_cst);
}

void wait_for(Flag& flag, uint32_t target, int spins) {
  if (spin_until(flag, target, spins)) return;
  while (!reached(flag, target)) sleep_on(flag, target, std::chrono::seconds(1));
}

}  // namespace ds
