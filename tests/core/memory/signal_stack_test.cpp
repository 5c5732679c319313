// The stack of signal handlers: that handlers run on it, and who keeps which.
#include "core/memory/signal_stack.h"

#include <signal.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "core/tasks/thread_pool.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

stack_t present_stack() {
  stack_t present{};
  sigaltstack(nullptr, &present);
  return present;
}

// Runs on a thread of its own, which has no such stack unless a sanitizer gave it one.
template <class Body>
void on_new_thread(const Body& body) {
  std::thread(body).join();
}

std::atomic<uintptr_t> handler_stood_at{0};

void note_place(int) {
  const char here = 0;
  handler_stood_at = reinterpret_cast<uintptr_t>(&here);
}

TEST_CASE("a handler that asks for it runs on the thread's signal stack", "[core]") {
  struct sigaction before {};
  struct sigaction noting {};
  noting.sa_handler = note_place;
  noting.sa_flags = SA_ONSTACK;
  REQUIRE(sigaction(SIGUSR2, &noting, &before) == 0);
  bool inside = false;
  on_new_thread([&] {
    const SignalStack stack;
    const stack_t present = present_stack();
    raise(SIGUSR2);
    const auto begin = reinterpret_cast<uintptr_t>(present.ss_sp);
    inside = handler_stood_at >= begin && handler_stood_at < begin + present.ss_size;
  });
  sigaction(SIGUSR2, &before, nullptr);
  CHECK(inside);
}

TEST_CASE("a thread that has a signal stack keeps it", "[core]") {
  bool kept = false, kept_after = false;
  on_new_thread([&] {
    std::vector<std::byte> memory(size_t{64} << 10);
    stack_t mine{};
    mine.ss_sp = memory.data();
    mine.ss_size = memory.size();
    stack_t before{};
    sigaltstack(&mine, &before);
    {
      const SignalStack second;
      kept = present_stack().ss_sp == memory.data();
    }
    kept_after = present_stack().ss_sp == memory.data();
    sigaltstack(&before, nullptr);
  });
  CHECK(kept);
  CHECK(kept_after);
}

TEST_CASE("a signal stack is gone with its object", "[core]") {
  bool had = false, has = false, had_before = false;
  on_new_thread([&] {
    had_before = (present_stack().ss_flags & SS_DISABLE) == 0;
    {
      const SignalStack stack;
      had = (present_stack().ss_flags & SS_DISABLE) == 0;
    }
    has = (present_stack().ss_flags & SS_DISABLE) == 0;
  });
  CHECK(had);
  CHECK(has == had_before);
}

TEST_CASE("the threads of a pool have a signal stack each", "[core]") {
  ThreadPool pool(3);
  std::vector<void*> places(3, nullptr);
  pool.for_each_thread([&](int index) {
    const stack_t present = present_stack();
    if ((present.ss_flags & SS_DISABLE) == 0) places[static_cast<size_t>(index)] = present.ss_sp;
  });
  CHECK(places[1] != nullptr);
  CHECK(places[2] != nullptr);
  CHECK(places[1] != places[2]);
}

}  // namespace
}  // namespace ds
