// CommThread: a store's talk with peers on a thread of its own, where streams do at once what they
// are given: on a CPU, whose wires would lie idle while it computes, and which would lie idle while
// something travels. It does what it is given in that order. What it reads and writes stays, and is
// touched by nobody else, until it was waited for.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/device/stream.h"

namespace ds {

// All calls come from one thread.
class CommThread {
 public:
  // own: of the CPU, without a trace, and nobody else's.
  explicit CommThread(Stream& own);
  ~CommThread();                           // as abandon()
  CommThread(const CommThread&) = delete;  // its thread refers to it
  CommThread& operator=(const CommThread&) = delete;

  using Work = std::function<void(Stream& own)>;
  // label: what it is for, which lives as long. Throws what went wrong with work before.
  void give(Work work, std::string_view label);
  int64_t given() const { return given_; }  // how much work, so far
  // Until the first `number` works are done. Throws what went wrong with one of them, or before
  // them; nothing is begun after that.
  void wait(int64_t number);
  // Waits until all work is done, and throws nothing: wait() throws what went wrong.
  void idle() noexcept;
  // What has not begun never will; waits for what has. Nobody asks what became of it.
  void abandon() noexcept;

 private:
  struct Given {
    Work work;
    std::string_view label;
  };
  void run();

  Stream& own_;
  int64_t given_ = 0;

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::deque<Given> waiting_;
  int64_t done_ = 0;
  bool is_working_ = false;
  bool ends_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // last: it uses the others
};

}  // namespace ds
