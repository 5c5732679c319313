// The swapper: what was put comes back, byte for byte, or one error says what is wrong with it.
#include "offload/swapper.h"

#include <signal.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <thread>

#include "core/status/failpoint.h"
#include "tests/offload/swapping.h"
#include "tests/support/catch.h"
#include "tests/support/draws.h"
#include "tests/support/files/temporary_directory.h"
#include "tests/support/processes.h"

namespace ds {
namespace {

using Catch::Contains;
using test::Bytes;
using test::change_file;
using test::file_bytes;
using test::get_and_wait;
using test::put_and_wait;
using test::random_bytes;

// One swapper in a directory of its own. The first extent begins behind the file's header.
struct OneSwapper {
  explicit OneSwapper(test::FailingEngine::ResultOf result_of = nullptr)
      : swapper(test::swap_options(directory.path()), test::thread_io(std::move(result_of))) {}
  testing::TemporaryDirectory directory;
  Swapper swapper;
};
constexpr int64_t kHeaderAt = kSwapPage, kDataAt = 2 * kSwapPage;

TEST_CASE("random puts, gets and drops give back what a map gives back", "[offload]") {
  test::Draws draws(11);
  OneSwapper one;
  std::map<std::string, Bytes> expected;
  int full = 0;
  for (int turn = 0; turn < 400; ++turn) {
    const std::string key = "tensor." + std::to_string(draws.pick(0, 9));
    const int64_t what = draws.pick(0, 9);
    if (what < 5) {
      const bool same = expected.contains(key) && draws.pick(0, 1) == 0;
      const size_t size = same ? expected[key].size() : to_size(draws.pick(1, 200'000));
      const Bytes bytes = random_bytes(size, narrow<uint32_t>(turn));
      try {
        put_and_wait(one.swapper, key, bytes);
        expected[key] = bytes;
      } catch (const OutOfMemory&) {
        expected.erase(key);
        ++full;
      }
    } else if (what < 9 && expected.contains(key)) {
      REQUIRE(get_and_wait(one.swapper, key, expected[key].size()) == expected[key]);
    } else if (expected.erase(key) == 1) {
      one.swapper.drop(key);
    }
    REQUIRE(one.swapper.has(key) == expected.contains(key));
  }
  CHECK(full > 0);
  for (const auto& [key, bytes] : expected) {
    CHECK(get_and_wait(one.swapper, key, bytes.size()) == bytes);
    one.swapper.drop(key);
  }
  CHECK(one.swapper.bytes_free() == 1 << 20);
}

TEST_CASE("transfers of many keys are under way at once", "[offload]") {
  OneSwapper one;
  std::vector<Bytes> from, into;
  std::vector<SwapTicket> tickets;
  for (uint32_t i = 0; i < 20; ++i) {
    from.push_back(random_bytes(30'000 + i, i));
    into.emplace_back(from.back().size());
  }
  for (size_t i = 0; i < from.size(); ++i) {
    tickets.push_back(one.swapper.put(std::to_string(i), from[i]));
    CHECK(one.swapper.generation(std::to_string(i)) == narrow<int64_t>(i) + 1);
  }
  for (size_t i = from.size(); i-- > 0;) one.swapper.wait(tickets[i]);
  tickets.clear();
  for (size_t i = 0; i < from.size(); ++i) {
    tickets.push_back(one.swapper.get(std::to_string(i), into[i]));
  }
  for (const SwapTicket ticket : tickets) one.swapper.wait(ticket);
  CHECK(into == from);
}

TEST_CASE("what this machine offers for asynchronous I/O swaps as well", "[offload]") {
  const testing::TemporaryDirectory directory;
  SwapperOptions options = test::swap_options(directory.path());
  options.bytes = 8 << 20;
  Swapper swapper(options, std::make_unique<AsyncIo>(IoOptions{.thread_count = 2}));
  for (const size_t size : {1UL, 4095UL, 4096UL, 5'000'001UL}) {
    const Bytes bytes = random_bytes(size, 9);
    put_and_wait(swapper, "a", bytes);
    CHECK(get_and_wait(swapper, "a", size) == bytes);
  }
}

TEST_CASE("threads swap their own keys at the same time", "[offload]") {
  OneSwapper one;
  std::atomic<int> equal{0};
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 20; ++i) {
        const Bytes bytes = random_bytes(1000 + 1777 * i, 100 * t + i);
        const std::string key = "thread " + std::to_string(t);
        put_and_wait(one.swapper, key, bytes);
        equal += get_and_wait(one.swapper, key, bytes.size()) == bytes ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(equal == 80);
}

TEST_CASE("what the caller gets wrong is refused", "[offload]") {
  OneSwapper one;
  Bytes bytes = random_bytes(5000, 1), small(4999);
  CHECK_THROWS_AS(one.swapper.get("a", bytes), InternalError);
  CHECK_THROWS_AS(one.swapper.drop("a"), InternalError);
  CHECK_THROWS_AS(one.swapper.put("", bytes), InternalError);
  CHECK_THROWS_AS(one.swapper.put("a", {}), InternalError);
  CHECK_THROWS_AS(one.swapper.put(std::string(257, 'k'), bytes), InternalError);
  const SwapTicket ticket = one.swapper.put("a", bytes);
  CHECK_THROWS_WITH(one.swapper.put("a", bytes), Contains("a transfer is under way"));
  CHECK_THROWS_AS(one.swapper.get("a", bytes), InternalError);
  CHECK_THROWS_AS(one.swapper.drop("a"), InternalError);
  one.swapper.wait(ticket);
  CHECK_THROWS_AS(one.swapper.wait(ticket), InternalError);
  CHECK_THROWS_AS(one.swapper.get("a", small), InternalError);
  CHECK(get_and_wait(one.swapper, "a", 5000) == bytes);
  const Bytes large(2 << 20);
  CHECK_THROWS_WITH(one.swapper.put("large", large),
                    Contains("\"large\": extents: no room for ") && Contains("are free"));
}

// The error of reading "a", which has to name the file and the key.
std::string complaint(Swapper& swapper, size_t size) {
  Bytes into(size);
  const SwapTicket ticket = swapper.get("a", into);
  try {
    swapper.wait(ticket);
  } catch (const SwapCorrupt& error) {
    CHECK_THAT(error.what(), Contains("swap file " + swapper.path() + ", \"a\" at byte 4096: "));
    return error.what();
  }
  return "none";
}

TEST_CASE("a bit that flips in the file is found wherever it is", "[offload]") {
  OneSwapper one;
  const Bytes bytes = random_bytes(10'000, 3);
  put_and_wait(one.swapper, "a", bytes);
  test::Draws draws(5);
  const auto check = [&](int64_t offset, const char* expected) {
    const int bit = narrow<int>(draws.pick(0, 7));
    CAPTURE(offset, bit);
    test::flip_bit(one.swapper.path(), offset, bit);
    CHECK_THAT(complaint(one.swapper, bytes.size()), Contains(expected));
    test::flip_bit(one.swapper.path(), offset, bit);
  };
  check(kHeaderAt, "magic is ");
  check(kHeaderAt + 8, "format version is ");
  for (const int64_t in_header : {16, 31, 32, 72, 90, 300, 487, 488, 535, 536, 4095}) {
    check(kHeaderAt + in_header, "digest of the header is ");
  }
  for (int i = 0; i < 30; ++i) {
    const int64_t at =
        i < 3 ? std::array<int64_t, 3>{0, 4096, 9999}[to_size(i)] : draws.pick(0, 9999);
    check(kDataAt + at, fmt::format("digest of block {} (", at / 4096).c_str());
  }
  // Behind the data nobody reads.
  test::flip_bit(one.swapper.path(), kDataAt + 10'000, 1);
  CHECK(complaint(one.swapper, bytes.size()) == "none");
  CHECK(get_and_wait(one.swapper, "a", bytes.size()) == bytes);
}

TEST_CASE("files of two ranks that change places are found", "[offload]") {
  const testing::TemporaryDirectory directory;
  Swapper first(test::swap_options(directory.path(), 0), test::thread_io());
  Swapper second(test::swap_options(directory.path(), 1), test::thread_io());
  put_and_wait(first, "a", random_bytes(10'000, 3));
  put_and_wait(second, "a", random_bytes(10'000, 4));
  const Bytes of_first = file_bytes(first.path(), 0, 65'536);
  change_file(first.path(), 0, file_bytes(second.path(), 0, 65'536));
  change_file(second.path(), 0, of_first);
  CHECK_THAT(complaint(first, 10'000),
             Contains("rank is 1, expected 0 (the file of another rank)"));
  CHECK_THAT(complaint(second, 10'000), Contains("rank is 0, expected 1"));
}

TEST_CASE("the file of another job or epoch is found", "[offload]") {
  const testing::TemporaryDirectory here, there;
  Swapper swapper(test::swap_options(here.path()), test::thread_io());
  put_and_wait(swapper, "a", random_bytes(10'000, 3));
  SwapperOptions other = test::swap_options(there.path());
  const auto replace = [&] {
    Swapper foreign(other, test::thread_io());
    put_and_wait(foreign, "a", random_bytes(10'000, 3));
    change_file(swapper.path(), 0, file_bytes(foreign.path(), 0, 65'536));
  };
  other.owner.job = "day-run";
  replace();
  CHECK_THAT(complaint(swapper, 10'000), Contains("job is day-run, expected night-run"));
  other.owner = test::swap_options(there.path()).owner;
  other.owner.epoch = 2;
  replace();
  CHECK_THAT(complaint(swapper, 10'000), Contains("generation is 2, expected 3"));
}

TEST_CASE("a write that never arrived, or in part, is found", "[offload]") {
  OneSwapper one;
  put_and_wait(one.swapper, "a", random_bytes(10'000, 3));
  const Bytes old_header = file_bytes(one.swapper.path(), kHeaderAt, 4096);
  const Bytes old_data = file_bytes(one.swapper.path(), kDataAt, 10'000);
  put_and_wait(one.swapper, "a", random_bytes(10'000, 4));
  const Bytes new_header = file_bytes(one.swapper.path(), kHeaderAt, 4096);
  change_file(one.swapper.path(), kHeaderAt, old_header);
  CHECK_THAT(complaint(one.swapper, 10'000), Contains("generation is 1, expected 2"));
  change_file(one.swapper.path(), kDataAt, old_data);
  CHECK_THAT(complaint(one.swapper, 10'000), Contains("generation is 1, expected 2"));
  change_file(one.swapper.path(), kHeaderAt, new_header);
  CHECK_THAT(complaint(one.swapper, 10'000), Contains("digest of block 0"));
}

TEST_CASE("bytes that change while they are written are found", "[offload]") {
  OneSwapper one;
  Bytes bytes = random_bytes(10'000, 3);
  put_and_wait(one.swapper, "a", bytes);
  bytes[77] ^= std::byte{1};  // as if the caller had gone on working on them
  change_file(one.swapper.path(), kDataAt, bytes);
  CHECK_THAT(complaint(one.swapper, 10'000), Contains("digest of block 0"));
}

TEST_CASE("a truncated file is found at each length", "[offload]") {
  OneSwapper one;
  const Bytes bytes = random_bytes(10'000, 3);
  put_and_wait(one.swapper, "a", bytes);
  const int64_t whole = kSwapPage + (1 << 20);
  for (const int64_t left : {int64_t{0}, kHeaderAt, kHeaderAt + 1, kDataAt, kDataAt + 9999}) {
    REQUIRE(::truncate(one.swapper.path().c_str(), left) == 0);
    CHECK_THAT(
        complaint(one.swapper, 10'000),
        Contains(fmt::format("the file has {} bytes, expected {} (truncated)", left, whole)));
    REQUIRE(::truncate(one.swapper.path().c_str(), whole) == 0);
    CHECK(complaint(one.swapper, 10'000) != "none");  // zeros are not what was there
    put_and_wait(one.swapper, "a", bytes);
  }
  CHECK(get_and_wait(one.swapper, "a", 10'000) == bytes);
}

// A write that fails at the k-th block, and one that succeeds after it.
void check_failed_write(int64_t failing, int64_t result, int* blocks) {
  std::atomic<int64_t> block{0};
  std::atomic<bool> armed{false};
  OneSwapper one([&](const IoBlock& b) -> std::optional<int64_t> {
    if (!armed || b.kind != IoKind::kWrite) return std::nullopt;
    // Blocks behind the failing one do not fail: an error is no less one when others succeed.
    const int64_t number = block++;
    return number == failing || (number == failing + 1 && result == -EIO)
               ? std::optional<int64_t>(result)
               : std::nullopt;
  });
  const Bytes before = random_bytes(60'000, 3), after = random_bytes(60'000, 4);
  put_and_wait(one.swapper, "a", before);
  armed = true;
  const SwapTicket ticket = one.swapper.put("a", after);
  bool failed = false;
  try {
    one.swapper.wait(ticket);
  } catch (const IoError& error) {
    failed = true;
    CHECK_THAT(error.what(),
               Contains("swap file " + one.swapper.path() + ", \"a\" at byte 4096: "));
  }
  armed = false;
  *blocks = narrow<int>(block.load());
  if (failed) {
    Bytes into(60'000);
    CHECK_THROWS_AS(one.swapper.get("a", into), SwapCorrupt);
    CHECK_THROWS_WITH(one.swapper.get("a", into), Contains("its last write failed: "));
    put_and_wait(one.swapper, "a", after);
  }
  CHECK(get_and_wait(one.swapper, "a", 60'000) == after);
}

TEST_CASE("a write that fails at any block is an error, and no data come of it", "[offload]") {
  for (const int64_t result : {-ENOSPC, -ENODEV, -EROFS}) {
    int blocks = 1;
    for (int64_t k = 0; k < blocks; ++k) check_failed_write(k, result, &blocks);
    CHECK(blocks > 3);
  }
}

TEST_CASE("a full disk in the middle is told as that", "[offload]") {
  OneSwapper one([](const IoBlock& b) -> std::optional<int64_t> {
    return b.kind == IoKind::kWrite ? std::optional<int64_t>(-ENOSPC) : std::nullopt;
  });
  const Bytes bytes(5000);
  const SwapTicket ticket = one.swapper.put("a", bytes);
  CHECK_THROWS_AS(one.swapper.wait(ticket), DiskFull);
}

TEST_CASE("a read that fails is an error, and may succeed the next time", "[offload]") {
  std::atomic<bool> fails{false};
  OneSwapper one([&](const IoBlock& b) -> std::optional<int64_t> {
    return fails && b.kind == IoKind::kRead ? std::optional<int64_t>(-EIO) : std::nullopt;
  });
  const Bytes bytes = random_bytes(60'000, 3);
  put_and_wait(one.swapper, "a", bytes);
  fails = true;
  Bytes into(bytes.size());
  const SwapTicket ticket = one.swapper.get("a", into);
  CHECK_THROWS_WITH(one.swapper.wait(ticket),
                    Contains("\"a\" at byte 4096: ") && Contains("Input/output error"));
  fails = false;
  CHECK(get_and_wait(one.swapper, "a", bytes.size()) == bytes);
}

TEST_CASE("a device that claims to have written or read what it has not is found", "[offload]") {
  std::atomic<bool> lies{false};
  OneSwapper one([&](const IoBlock& b) -> std::optional<int64_t> {
    return lies ? std::optional<int64_t>(b.bytes) : std::nullopt;
  });
  const Bytes bytes = random_bytes(60'000, 3);
  put_and_wait(one.swapper, "a", bytes);
  lies = true;
  CHECK(complaint(one.swapper, bytes.size()) != "none");    // nothing was read
  put_and_wait(one.swapper, "a", random_bytes(60'000, 4));  // nothing was written
  lies = false;
  CHECK_THAT(complaint(one.swapper, bytes.size()), Contains("generation is 1, expected 2"));
}

#ifdef DS_FAILPOINTS
// What a process that was killed left of two writes: whether each would be taken for whole.
struct Remains {
  bool is_first = false, is_second = false;
};

Remains remains_at(const std::string& path, const Bytes& first, const Bytes& second) {
  const SwapOwner owner = test::swap_options("").owner;
  const Bytes header = file_bytes(path, kHeaderAt, 4096);
  const Bytes data = file_bytes(path, kDataAt, first.size());
  const auto passes = [&](const Bytes& bytes, int64_t generation) {
    try {
      check_swap_extent(header, data, describe_swap_extent(owner, "a", generation, 4096, bytes),
                        {.path = path, .offset = kHeaderAt});
    } catch (const SwapCorrupt&) {
      return false;
    }
    REQUIRE(data == bytes);  // what passes is what was written
    return true;
  };
  return {.is_first = passes(first, 1), .is_second = passes(second, 2)};
}

TEST_CASE("a process that is killed while it writes leaves one write or none, and a free place",
          "[offload]") {
  const Bytes first = random_bytes(60'000, 3), second = random_bytes(60'000, 4);
  for (const std::string place : {"swap.put_begun", "swap.data_on_its_way", "swap.put_on_its_way",
                                  "swap.put_done", "swap.got"}) {
    const testing::TemporaryDirectory directory;
    const auto dies = [&] {
      Swapper swapper(test::swap_options(directory.path()), test::thread_io());
      put_and_wait(swapper, "a", first);
      arm_failpoints(place + "=kill", {});
      put_and_wait(swapper, "a", second);
      get_and_wait(swapper, "a", second.size());
    };
    CAPTURE(place);
    REQUIRE(WTERMSIG(test::run_processes({dies})[0].status) == SIGKILL);
    const Remains left = remains_at(
        directory.path() / (test::swap_options("").owner.job + ".rank-0.swap"), first, second);
    CHECK(!(left.is_first && left.is_second));
    if (place == "swap.put_begun") CHECK(left.is_first);
    if (place == "swap.data_on_its_way") CHECK(!left.is_second);
    if (place == "swap.put_done" || place == "swap.got") CHECK(left.is_second);
    Swapper next(test::swap_options(directory.path()), test::thread_io());
    CHECK(!next.has("a"));
    put_and_wait(next, "a", second);
    CHECK(get_and_wait(next, "a", second.size()) == second);
  }
}

TEST_CASE("a put that cannot be begun leaves the key lost, and the rest as it was", "[offload]") {
  for (const std::string place :
       {"swap.put_begun", "swap.data_on_its_way", "swap.put_on_its_way"}) {
    OneSwapper one;
    const Bytes bytes = random_bytes(60'000, 3);
    Bytes into(60'000);
    put_and_wait(one.swapper, "a", bytes);
    put_and_wait(one.swapper, "b", bytes);
    arm_failpoints(place + "=error(eio)", {});
    CHECK_THROWS_AS(one.swapper.put("a", bytes), IoError);
    arm_failpoints(place + "=off", {});
    CHECK_THROWS_WITH(one.swapper.get("a", into), Contains("it could not be begun"));
    CHECK(get_and_wait(one.swapper, "b", 60'000) == bytes);
    put_and_wait(one.swapper, "a", bytes);
    CHECK(get_and_wait(one.swapper, "a", 60'000) == bytes);
  }
}
#endif

}  // namespace
}  // namespace ds
