#include "core/thread_pool.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "core/error.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

TEST_CASE("a parallel loop covers every index once, in ranges of the grain", "[core]") {
  for (const int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    for (const int64_t count : {0, 1, 7, 64, 1000}) {
      std::vector<std::atomic<int>> seen(static_cast<size_t>(count));
      pool.parallel_for(count, 16, [&](int64_t begin, int64_t end) {
        if (begin % 16 != 0) throw InternalError("range does not start at the grain");
        for (int64_t i = begin; i < end; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& times : seen) REQUIRE(times == 1);
    }
  }
}

TEST_CASE("each thread of the pool gets its own index", "[core]") {
  ThreadPool pool(4);
  std::mutex ids_mutex;
  std::set<std::thread::id> ids;
  pool.for_each_thread([&](int) {
    const std::lock_guard lock(ids_mutex);
    ids.insert(std::this_thread::get_id());
  });
  CHECK(ids.size() == 4);
}

TEST_CASE("an exception in one part reaches the caller and the pool stays usable", "[core]") {
  ThreadPool pool(3);
  CHECK_THROWS_WITH(pool.parallel_for(300, 1,
                                      [](int64_t begin, int64_t) {
                                        if (begin >= 200) throw DataError("part three failed");
                                      }),
                    "part three failed");
  std::atomic<int64_t> total{0};
  pool.parallel_for(100, 1, [&](int64_t begin, int64_t end) { total += end - begin; });
  CHECK(total == 100);
}

}  // namespace
}  // namespace ds
