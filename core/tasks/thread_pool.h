// A fixed set of threads that split one loop at a time. The split depends on the loop's length and
// the number of threads alone, so that equal inputs give equal bits. One pool per rank; the caller
// works too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace ds {

class ThreadPool {
 public:
  // `threads` counts the caller: 1 makes no thread at all.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;  // owns threads
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(begin, end) on disjoint ranges that cover [0, count), at most threads() of them,
  // each a multiple of `grain` long (the last excepted). Returns when all are done; the first
  // exception that a body threw is rethrown. Confined to one calling thread at a time; bodies must
  // not call it again.
  void parallel_for(int64_t count, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end)>& body);

  // Calls body(index) for index in [0, threads()), each on its own thread.
  void for_each_thread(const std::function<void(int index)>& body);

 private:
  struct State;
  const int threads_;
  std::unique_ptr<State> state_;
};

}  // namespace ds
