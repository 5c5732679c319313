// The pool of staging buffers: how many, where they lie, who waits for whom, and what is pinned.
#include "offload/staging_pool.h"

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "core/files/file.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"

namespace ds {
namespace {

using Catch::Contains;

StagingOptions small(int buffers, int64_t bytes, int64_t timeout_ms = 10'000) {
  return {.buffers = buffers,
          .buffer_bytes = bytes,
          .pinning = Pinning::kNone,
          .timeout_ms = timeout_ms};
}

TEST_CASE("buffers are aligned for direct transfers and do not overlap", "[offload]") {
  StagingPool pool(small(3, 5000));
  CHECK(pool.buffer_bytes() == 8192);
  CHECK(pool.memory().size() == 3 * 8192);
  std::vector<StagingPool::Lease> leases;
  std::set<std::byte*> places;
  for (int i = 0; i < 3; ++i) {
    leases.push_back(pool.take(5000 - i, "test"));
    const std::span<std::byte> bytes = leases.back().bytes();
    CHECK(bytes.size() == static_cast<size_t>(5000 - i));
    CHECK(reinterpret_cast<uintptr_t>(bytes.data()) % kUncachedAlignment == 0);
    std::memset(bytes.data(), i, bytes.size());
    places.insert(bytes.data());
  }
  CHECK(places.size() == 3);
  for (int i = 0; i < 3; ++i) {
    CHECK(std::ranges::all_of(leases[static_cast<size_t>(i)].bytes(),
                              [&](std::byte b) { return b == static_cast<std::byte>(i); }));
  }
}

TEST_CASE("a buffer that was given back is the next one's", "[offload]") {
  StagingPool pool(small(1, 4096, 0));
  for (int i = 0; i < 3; ++i) {
    StagingPool::Lease lease = pool.take(10, "one");
    CHECK_THROWS_AS(pool.take(10, "two"), StagingTimeout);
    StagingPool::Lease moved = std::move(lease);
    CHECK(!lease.holds());  // NOLINT(bugprone-use-after-move): it says so of itself
    CHECK(moved.holds());
    if (i == 1) moved.give_back();
  }
  StagingPool::Lease last = pool.take(4096, "three");
  last = StagingPool::Lease();
  CHECK(pool.take(0, "four").bytes().empty());
}

TEST_CASE("who waits in vain is told who holds the buffers", "[offload]") {
  StagingPool pool(small(2, 4096, 20));
  const StagingPool::Lease first = pool.take(1, "optimizer part 3");
  StagingPool::Lease second = pool.take(1, "parameters of layer 7");
  second.abandon();
  CHECK_THROWS_WITH(pool.take(1, "optimizer part 4"),
                    Contains("optimizer part 4 waited 20 ms for one of 2 buffers of 4096 bytes") &&
                        Contains("optimizer part 3 (0.") && Contains("parameters of layer 7 (0.") &&
                        Contains("s, a transfer that never ended)"));
}

TEST_CASE("who waits gets what another thread gives back", "[offload]") {
  constexpr int kThreads = 4;
  StagingPool pool(small(2, 4096));
  std::atomic<int> at_once{0}, most{0}, turns{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const StagingPool::Lease lease = pool.take(64, "thread");
        const int now = ++at_once;
        int seen = most.load();
        while (seen < now && !most.compare_exchange_weak(seen, now)) {
        }
        std::memset(lease.bytes().data(), t, 64);
        const bool mine = std::ranges::all_of(
            lease.bytes(), [&](std::byte b) { return b == static_cast<std::byte>(t); });
        turns += mine ? 1 : 0;
        --at_once;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(turns == kThreads * 200);
  CHECK(most <= 2);
}

TEST_CASE("a caller's mistakes are refused", "[offload]") {
  StagingPool pool(small(1, 4096));
  CHECK_THROWS_AS(pool.take(4097, "large"), InternalError);
  CHECK_THROWS_AS(pool.take(1, ""), InternalError);
  CHECK_THROWS_AS(StagingPool(small(0, 4096)), InternalError);
  CHECK_THROWS_AS(StagingPool(small(1, 0)), InternalError);
}

class CountingMemory final : public MemoryResource {
 public:
  void* allocate(size_t bytes, MemoryTag tag) override {
    ++live;
    return heap_.allocate(bytes, tag);
  }
  void deallocate(void* pointer, size_t bytes, MemoryTag tag) noexcept override {
    --live;
    heap_.deallocate(pointer, bytes, tag);
  }
  int live = 0;

 private:
  HostMemory heap_;
};

TEST_CASE("memory of a device's runtime is pinned as it is", "[offload]") {
  CountingMemory pinned;
  {
    StagingOptions options = small(2, 4096);
    options.pinning = Pinning::kAlready;
    StagingPool pool(options, &pinned);
    CHECK(pool.is_pinned());
    CHECK(pinned.live == 1);
  }
  CHECK(pinned.live == 0);
}

// mlock knows limits only of who may not exceed them.
void give_up_locked_memory() {
  const rlimit none{0, 0};
  if (::setrlimit(RLIMIT_MEMLOCK, &none) != 0) throw InternalError("setrlimit");
  if (::geteuid() == 0 && ::setuid(65534) != 0) throw InternalError("setuid");
}

// Sanitizers make mlock() do nothing.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST_CASE("where mlock is refused the pool is not pinned, or says what to raise", "[offload]") {
  const auto required = [] {
    give_up_locked_memory();
    StagingOptions options = small(2, 4096);
    options.pinning = Pinning::kRequired;
    StagingPool pool(options);
  };
  const auto if_possible = [] {
    give_up_locked_memory();
    std::ostringstream log;
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_st>(log)));
    StagingOptions options = small(2, 4096);
    options.pinning = Pinning::kIfPossible;
    StagingPool pool(options);
    if (pool.is_pinned()) throw InternalError("it is pinned");
    pool.take(4096, "test");
    throw InternalError(log.str());
  };
  const auto results = test::run_processes({required, if_possible});
  CHECK_THAT(results[0].error, Contains("8192 bytes cannot be pinned") &&
                                   Contains("RLIMIT_MEMLOCK is 0 bytes") &&
                                   Contains("pin_memory asks for it: raise the limit (ulimit -l"));
  CHECK_THAT(results[1].error, Contains("8192 bytes cannot be pinned") &&
                                   Contains("go through memory that is not pinned"));
  CHECK(std::ranges::count(results[1].error, '\n') == 1);
}

TEST_CASE("pinned memory is locked, and unlocked at the end", "[offload]") {
  const auto locked_kilobytes = [] {
    std::ifstream status("/proc/self/status");
    std::string line;
    while (std::getline(status, line)) {
      if (line.starts_with("VmLck:")) return std::stol(line.substr(6));
    }
    return -1L;
  };
  const long before = locked_kilobytes();
  REQUIRE(before >= 0);
  {
    StagingOptions options = small(2, 8192);
    options.pinning = Pinning::kRequired;
    StagingPool pool(options);
    CHECK(pool.is_pinned());
    CHECK(locked_kilobytes() == before + 16);
  }
  CHECK(locked_kilobytes() == before);
}
#endif

}  // namespace
}  // namespace ds
