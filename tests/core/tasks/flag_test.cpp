#include "core/tasks/flag.h"

#include <atomic>
#include <thread>
#include <vector>

#include "tests/support/catch.h"

namespace ds {

using std::chrono::seconds;

TEST_CASE("a flag is reached by signed distance, so that its counter may wrap", "[core]") {
  CHECK(reached(5, 5));
  CHECK(reached(6, 5));
  CHECK_FALSE(reached(4, 5));
  CHECK(reached(1, 0xffff'fffeU));
  CHECK_FALSE(reached(0xffff'fffeU, 1));
}

TEST_CASE("spinning ends with what the flag says", "[core]") {
  Flag flag{};
  CHECK_FALSE(spin_until(flag, 1, 0));
  CHECK_FALSE(spin_until(flag, 1, 10));
  raise(flag, 1);
  CHECK(spin_until(flag, 1, 0));
}

TEST_CASE("who sleeps on a flag is woken by its rise", "[core]") {
  constexpr int kRounds = 2000, kThreads = 3;
  Flag begun{}, ended{};
  std::atomic<int> left{0}, sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t round = 1; round <= kRounds; ++round) {
        wait_for(begun, round, t * 32);  // with and without spinning
        ++sum;
        if (--left == 0) raise(ended, round);
      }
    });
  }
  bool together = true;
  for (uint32_t round = 1; round <= kRounds; ++round) {
    left = kThreads;
    raise(begun, round);
    wait_for(ended, round, 0);
    together = together && sum == static_cast<int>(round) * kThreads;
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(together);
  CHECK(begun.sleepers == 0);
  CHECK(ended.sleepers == 0);
}

TEST_CASE("a sleeper gets up when its time is over, and when it is woken without a rise",
          "[core]") {
  Flag flag{};
  sleep_on(flag, 1, std::chrono::milliseconds(1));
  CHECK_FALSE(reached(flag, 1));
  std::atomic<bool> is_up{false};
  std::thread sleeper([&] {
    sleep_on(flag, 1, seconds(100));
    is_up = true;
  });
  while (!is_up) {
    wake_all(flag);
    std::this_thread::yield();
  }
  sleeper.join();
  CHECK_FALSE(reached(flag, 1));
}

}  // namespace ds
