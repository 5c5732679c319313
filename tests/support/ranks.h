// Ranks as threads: run_ranks(4, [](Communicator& comm) { ... }) runs the body on every rank and
// rethrows the first failure, after the other ranks were released from their collectives. Catch's
// assertions are not thread-safe: inside a body, use require().
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "comm/shm/comm.h"

namespace ds::test {

// What a rank needs beside its communicator: a stream on the communicator's memory.
struct RankStream {
  explicit RankStream(Communicator& comm, int threads = 1)
      : pool(threads), stream({Device::cpu(), &comm.memory(), &pool, nullptr}) {}
  ThreadPool pool;
  Stream stream;
};

// Throws InternalError with the formatted message when the condition does not hold. Thread-safe.
template <class... Args>
void require(bool condition, fmt::format_string<Args...> format, Args&&... args) {
  if (!condition) throw InternalError(fmt::format(format, std::forward<Args>(args)...));
}

// Runs `body`, which must fail with a CommError, within `limit`; what it says.
inline std::string comm_error_of(std::chrono::milliseconds limit,
                                 const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  try {
    body();
  } catch (const CommError& e) {
    require(std::chrono::steady_clock::now() - start < limit, "took too long to notice: {}",
            e.what());
    return e.what();
  }
  throw InternalError("no CommError");
}

// One thread per communicator.
inline void run_group(std::vector<std::unique_ptr<Communicator>> group,
                      const std::function<void(Communicator&)>& body) {
  std::mutex first_mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (auto& comm : group) {
    threads.emplace_back([&first_mutex, &first, &body, &comm] {
      try {
        body(*comm);
      } catch (...) {
        {
          const std::lock_guard lock(first_mutex);
          if (!first) first = std::current_exception();
        }
        comm->abort();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

inline void run_ranks(int size, const std::function<void(Communicator&)>& body,
                      const ShmOptions& options = {}) {
  run_group(make_thread_group(size, options), body);
}

}  // namespace ds::test
