#include "core/tasks/thread_pool.h"

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "core/status/error.h"
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

TEST_CASE("a loop is cut by its length and the number of threads alone", "[core]") {
  using Ranges = std::set<std::pair<int64_t, int64_t>>;
  const auto ranges_of = [](ThreadPool& pool, int64_t count, int64_t grain) {
    std::mutex ranges_mutex;
    Ranges ranges;
    pool.parallel_for(count, grain, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(ranges_mutex);
      ranges.emplace(begin, end);
    });
    return ranges;
  };
  for (const int threads : {1, 2, 4, 7}) {
    ThreadPool pool(threads), again(threads);
    for (const int64_t count : {1, 15, 16, 17, 100, 1000}) {
      for (const int64_t grain : {1, 16, 1000}) {
        CAPTURE(threads, count, grain);
        const Ranges ranges = ranges_of(pool, count, grain);
        CHECK(ranges == ranges_of(again, count, grain));
        CHECK(ranges.size() <= static_cast<size_t>(threads));
        int64_t end = 0;
        for (const auto& [begin, range_end] : ranges) {
          CHECK(begin == end);
          CHECK(begin % grain == 0);
          CHECK((range_end % grain == 0 || range_end == count));
          end = range_end;
        }
        CHECK(end == count);
      }
    }
  }
}

TEST_CASE("a loop over nothing calls nobody", "[core]") {
  ThreadPool pool(3);
  int calls = 0;
  for (const int64_t count : {int64_t{0}, int64_t{-5}}) {
    pool.parallel_for(count, 4, [&](int64_t, int64_t) { ++calls; });
  }
  CHECK(calls == 0);
}

TEST_CASE("a pool without threads is refused", "[core]") {
  for (const int threads : {0, -1}) {
    CHECK_THROWS_WITH(ThreadPool(threads),
                      Catch::Contains(fmt::format("{} threads, expected at least 1", threads)));
  }
  CHECK(ThreadPool(1).threads() == 1);
  CHECK(ThreadPool(3).threads() == 3);
}

TEST_CASE("a failure on any thread is thrown once, and by a pool of one too", "[core]") {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int failing = 0; failing < threads; ++failing) {
      CHECK_THROWS_AS(pool.for_each_thread([&](int index) {
        if (index == failing) throw IoError("disk");
      }),
                      IoError);
      std::atomic<int> calls{0};
      CHECK_NOTHROW(pool.for_each_thread([&](int) { ++calls; }));
      CHECK(calls == threads);
    }
    // All fail: one of the failures arrives, and none is left for the next loop.
    CHECK_THROWS_AS(pool.for_each_thread([](int) { throw DataError("all"); }), DataError);
    CHECK_NOTHROW(pool.for_each_thread([](int) {}));
  }
}

TEST_CASE("a pool of one works on the calling thread", "[core]") {
  ThreadPool pool(1);
  std::thread::id worked;
  pool.for_each_thread([&](int index) {
    if (index == 0) worked = std::this_thread::get_id();
  });
  CHECK(worked == std::this_thread::get_id());
}

}  // namespace
}  // namespace ds
