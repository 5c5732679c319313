#include "core/tasks/thread_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "core/memory/rounding.h"
#include "core/memory/signal_stack.h"
#include "core/status/error.h"
#include "core/tasks/flag.h"
#include "core/tasks/task_limits.h"

namespace ds {
namespace {

// About 20 microseconds, which is what it takes to fall asleep and be woken: a step's next loop
// mostly follows within that time. Threads have a core each, unless somebody asks for more of them.
constexpr int kSpins = 640;

}  // namespace

struct ThreadPool::State {
  const std::function<void(int)>* body = nullptr;  // published by `begun`
  Flag begun{};                                    // counts the loops
  Flag ended{};                                    // the same; raised by the last worker
  std::atomic<int> running{0};
  std::atomic<bool> stopping{false};
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> workers;

  // Also where not all of them could be started.
  ~State() {
    stopping.store(true, std::memory_order_release);
    raise(begun, begun.value.load(std::memory_order_relaxed) + 1);
    for (std::thread& worker : workers) worker.join();
  }

  void call(int index) {
    try {
      (*body)(index);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work(int index) {
    for (uint32_t round = 1;; ++round) {
      wait_for(begun, round, kSpins);
      if (stopping.load(std::memory_order_acquire)) return;
      call(index);
      if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) raise(ended, round);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads), state_(std::make_unique<State>()) {
  DS_CHECK(threads >= 1, "thread pool: {} threads, expected at least 1", threads);
  for (int index = 1; index < threads; ++index) {
    state_->workers.push_back(start_thread("computing", [state = state_.get(), index] {
      const SignalStack stack;  // the work may be a generated kernel that borrows the stack pointer
      state->work(index);
    }));
  }
}

ThreadPool::~ThreadPool() = default;

void ThreadPool::for_each_thread(const std::function<void(int)>& body) {
  if (threads_ == 1) {
    body(0);
    return;
  }
  State& state = *state_;
  state.body = &body;
  state.running.store(threads_ - 1, std::memory_order_release);
  const uint32_t round = state.begun.value.load(std::memory_order_relaxed) + 1;
  raise(state.begun, round);
  state.call(0);
  wait_for(state.ended, round, kSpins);
  if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  const int64_t units = divide_up(count, grain);
  if (threads_ == 1 || units == 1) {
    body(0, count);
    return;
  }
  const int64_t parts = std::min<int64_t>(threads_, units);
  for_each_thread([&](int index) {
    if (index >= parts) return;
    const int64_t begin = units * index / parts * grain;
    const int64_t end = std::min(count, units * (index + 1) / parts * grain);
    if (begin < end) body(begin, end);
  });
}

}  // namespace ds
