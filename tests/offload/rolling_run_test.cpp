// Parts that roll through buffers: each is worked on once and written back, and where something
// fails, nothing stays under way.
#include "offload/rolling_run.h"

#include <atomic>

#include "tests/offload/swapping.h"
#include "tests/support/catch.h"
#include "tests/support/files/temporary_directory.h"

namespace ds {
namespace {

using Catch::Contains;
using test::Bytes;

struct Parts {
  explicit Parts(test::FailingEngine::ResultOf result_of = nullptr,
                 const std::atomic<bool>* hangs = nullptr)
      : pool({.buffers = 4, .buffer_bytes = 40'000, .pinning = Pinning::kNone, .timeout_ms = 0}),
        swapper(test::swap_options(directory.path()),
                test::thread_io(std::move(result_of), hangs)) {
    for (uint32_t part = 0; part < 7; ++part) {
      contents.push_back(test::random_bytes(20'000 + 2'500 * part, part));
      keys.push_back("part " + std::to_string(part));
      bytes.push_back(narrow<int64_t>(contents.back().size()));
    }
  }
  void put_all() {
    for (size_t i = 0; i < keys.size(); ++i) test::put_and_wait(swapper, keys[i], contents[i]);
  }
  RollingPlan plan(int buffers, bool pipeline,
                   RollingAccess access = RollingAccess::kUpdate) const {
    return plan_rolling({.part_bytes = bytes,
                         .buffers = buffers,
                         .pipeline_read = pipeline,
                         .pipeline_write = pipeline,
                         .access = access});
  }
  bool are_kept() {
    for (size_t i = 0; i < keys.size(); ++i) {
      if (test::get_and_wait(swapper, keys[i], contents[i].size()) != contents[i]) return false;
    }
    return true;
  }
  // The pool waits for nobody: all buffers are free or this throws.
  void check_all_free() {
    std::vector<StagingPool::Lease> leases;
    for (int i = 0; i < pool.buffers(); ++i) leases.push_back(pool.take(1, "check"));
  }

  testing::TemporaryDirectory directory;
  std::vector<Bytes> contents;
  std::vector<std::string> keys;
  std::vector<int64_t> bytes;
  StagingPool pool;
  Swapper swapper;
};

void add_one(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = static_cast<std::byte>(std::to_integer<unsigned>(b) + 1);
}

TEST_CASE("every part is worked on once, in order, and written back", "[offload]") {
  for (const auto& [buffers, pipeline] :
       {std::pair{1, false}, {2, false}, {3, true}, {4, true}, {4, false}}) {
    Parts parts;
    parts.put_all();
    std::vector<int> order;
    for (int round = 0; round < 3; ++round) {
      run_rolling(parts.plan(buffers, pipeline), parts.keys, parts.swapper, parts.pool,
                  [&](int part, std::span<std::byte> bytes) {
                    order.push_back(part);
                    REQUIRE(std::ranges::equal(bytes, nth(parts.contents, part)));
                    add_one(bytes);
                    add_one(nth(parts.contents, part));
                  });
    }
    CHECK(order.size() == 21);
    CHECK(std::ranges::is_sorted(std::span(order).first(7)));
    CHECK(parts.are_kept());
    parts.check_all_free();
  }
}

TEST_CASE("parts that are filled are written, parts that are read are not", "[offload]") {
  Parts parts;
  run_rolling(parts.plan(2, true, RollingAccess::kFill), parts.keys, parts.swapper, parts.pool,
              [&](int part, std::span<std::byte> bytes) {
                std::ranges::copy(nth(parts.contents, part), bytes.begin());
              });
  CHECK(parts.are_kept());
  const int64_t generation = parts.swapper.generation("part 6");
  int looked_at = 0;
  run_rolling(parts.plan(2, true, RollingAccess::kRead), parts.keys, parts.swapper, parts.pool,
              [&](int part, std::span<std::byte> bytes) {
                looked_at += std::ranges::equal(bytes, nth(parts.contents, part)) ? 1 : 0;
                add_one(bytes);  // is lost
              });
  CHECK(looked_at == 7);
  CHECK(parts.swapper.generation("part 6") == generation);
  CHECK(parts.are_kept());
  parts.check_all_free();
}

TEST_CASE("work that fails ends the roll, and nothing stays under way", "[offload]") {
  for (int failing = 0; failing < 7; ++failing) {
    Parts parts;
    parts.put_all();
    const auto work = [&](int part, std::span<std::byte> bytes) {
      if (part == failing) throw ValidationError("not finite");
      add_one(bytes);
      add_one(nth(parts.contents, part));
    };
    CHECK_THROWS_AS(run_rolling(parts.plan(3, true), parts.keys, parts.swapper, parts.pool, work),
                    ValidationError);
    parts.check_all_free();
    CHECK(parts.are_kept());  // those before it were written
  }
}

TEST_CASE("a part that cannot be read or is damaged is never worked on", "[offload]") {
  std::atomic<int64_t> bad_at{-1};
  Parts parts([&](const IoBlock& b) -> std::optional<int64_t> {
    const bool is_bad =
        b.kind == IoKind::kRead && b.offset <= bad_at && bad_at < b.offset + b.bytes;
    return is_bad ? std::optional<int64_t>(-EIO) : std::nullopt;
  });
  parts.put_all();
  std::vector<int> worked;
  const auto work = [&](int part, std::span<std::byte>) { worked.push_back(part); };
  // Extents lie one after the other, a page of header before each.
  int64_t at = kSwapPage;
  for (int part = 0; part < 3; ++part) at += swap_extent_bytes(nth(parts.bytes, part), 4096);
  bad_at = at + kSwapPage + 100;
  CHECK_THROWS_WITH(run_rolling(parts.plan(3, true), parts.keys, parts.swapper, parts.pool, work),
                    Contains("\"part 3\"") && Contains("Input/output error"));
  CHECK(worked == std::vector<int>{0, 1, 2});
  bad_at = -1;
  worked.clear();
  test::flip_bit(parts.swapper.path(), at + kSwapPage + 100, 3);
  CHECK_THROWS_AS(run_rolling(parts.plan(3, true), parts.keys, parts.swapper, parts.pool, work),
                  SwapCorrupt);
  CHECK(worked == std::vector<int>{0, 1, 2});
  parts.check_all_free();
}

TEST_CASE("a read that never ends is given up, and its buffer is nobody's any more", "[offload]") {
  std::atomic<bool> is_armed{false}, hangs{true};
  Parts parts(
      [&](const IoBlock& b) -> std::optional<int64_t> {
        const bool is_stuck = is_armed && b.kind == IoKind::kRead && b.bytes == 4096;  // a header
        return is_stuck ? std::optional<int64_t>(b.bytes) : std::nullopt;
      },
      &hangs);
  parts.put_all();
  is_armed = true;
  const auto work = [](int, std::span<std::byte>) { FAIL("it began"); };
  CHECK_THROWS_WITH(run_rolling(parts.plan(1, false), parts.keys, parts.swapper, parts.pool, work),
                    Contains("\"part 0\""));
  std::vector<StagingPool::Lease> leases;
  for (int i = 0; i < 3; ++i) leases.push_back(parts.pool.take(1, "check"));
  CHECK_THROWS_WITH(parts.pool.take(1, "check"),
                    Contains("part 0 (") && Contains("a transfer that never ended"));
  hangs = false;  // the swapper's end waits for it
}

TEST_CASE("a pool that is too small is refused before anything is read", "[offload]") {
  Parts parts;
  parts.put_all();
  StagingPool few({.buffers = 2, .buffer_bytes = 40'000, .pinning = Pinning::kNone});
  StagingPool small({.buffers = 3, .buffer_bytes = 4096, .pinning = Pinning::kNone});
  const auto work = [](int, std::span<std::byte>) { FAIL("it began"); };
  CHECK_THROWS_AS(run_rolling(parts.plan(3, true), parts.keys, parts.swapper, few, work),
                  InternalError);
  CHECK_THROWS_AS(run_rolling(parts.plan(3, true), parts.keys, parts.swapper, small, work),
                  InternalError);
  CHECK_THROWS_AS(run_rolling(parts.plan(3, true), std::span(parts.keys).first(6), parts.swapper,
                              parts.pool, work),
                  InternalError);
}

}  // namespace
}  // namespace ds
