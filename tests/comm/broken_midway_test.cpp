// A rank that leaves or aborts between two calls of a series of collectives, over both transports
// and at every place: what was called before is done and right on every other rank, what comes
// after is an error that names who is gone, and stays one.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/shm/arena.h"
#include "comm/shm/comm.h"
#include "core/values/rng.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/tcp_ranks.h"

namespace ds {
namespace {

using test::make_tcp_group;
using test::RankStream;
using test::require;

constexpr int kRanks = 3;
constexpr int kCalls = 8;

enum class Ending { kLeaves, kAborts };

// Call `index` of the series, of a length that goes through every path; throws InternalError where
// the result is wrong.
void run_call(Communicator& comm, Stream& stream, uint64_t seed, int index) {
  const Rng rng(seed, "series");
  const uint32_t draw = rng.bits(static_cast<uint64_t>(index));
  const int64_t lengths[] = {1, 100, 3000, 70'000};  // inside the slot, staged, in many chunks
  const int64_t numel = lengths[draw / 8 % 4];
  const auto value = static_cast<int32_t>(index + 1);
  Tensor t = Tensor::empty({numel}, DType::kI32, stream);
  std::fill_n(t.data<int32_t>(), numel, value * (comm.rank() + 1));
  const auto all_are = [&](const Tensor& tensor, int64_t begin, int64_t count, int32_t wanted) {
    const int32_t* const data = tensor.data<int32_t>() + begin;
    const auto right = std::count(data, data + count, wanted);
    require(right == count, "call {} on rank {}: {} of {} elements are right", index, comm.rank(),
            right, count);
  };
  switch (draw % 4) {
    case 0:
      comm.all_reduce(t, ReduceOp::kSum, stream);
      all_are(t, 0, numel, value * 6);
      return;
    case 1: {
      const int root = static_cast<int>(draw / 64 % kRanks);
      comm.broadcast(t, root, stream);
      all_are(t, 0, numel, value * (root + 1));
      return;
    }
    case 2: {
      Tensor full = Tensor::empty({kRanks * numel}, DType::kI32, stream);
      comm.all_gather(t, full, stream);
      for (int rank = 0; rank < kRanks; ++rank) {
        all_are(full, rank * numel, numel, value * (rank + 1));
      }
      return;
    }
    default:
      comm.barrier();
  }
}

struct Outcome {
  int done = 0;             // calls that returned
  std::string error;        // of the first that did not
  std::string wrong;        // anything that must not be
  bool error_stays = true;  // a further call fails, too
};

Outcome survive(Communicator& comm, uint64_t seed) {
  Outcome outcome;
  RankStream rank(comm);
  try {
    for (; outcome.done < kCalls; ++outcome.done) {
      run_call(comm, rank.stream, seed, outcome.done);
    }
  } catch (const CommError& error) {
    outcome.error = error.what();
  } catch (const std::exception& error) {
    outcome.wrong = error.what();
    return outcome;
  }
  if (outcome.error.empty()) return outcome;
  try {
    comm.barrier();
    outcome.error_stays = false;
  } catch (const CommError&) {
    return outcome;
  }
  return outcome;
}

// Runs the series on all ranks; the victim ends in its way before call `at`.
std::vector<Outcome> run_broken(std::vector<std::unique_ptr<Communicator>> group, int victim,
                                int at, Ending ending, uint64_t seed) {
  std::vector<Outcome> outcomes(group.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < group.size(); ++r) {
    threads.emplace_back([&, r] {
      Outcome& mine = outcomes[r];
      if (static_cast<int>(r) != victim) {
        mine = survive(*group[r], seed);
        return;
      }
      try {
        RankStream rank(*group[r]);
        for (; mine.done < at; ++mine.done) run_call(*group[r], rank.stream, seed, mine.done);
      } catch (const std::exception& error) {
        mine.wrong = error.what();
      }
      if (ending == Ending::kAborts) {
        group[r]->abort();
      } else {
        group[r].reset();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return outcomes;
}

void check_everywhere(
    const std::function<std::vector<std::unique_ptr<Communicator>>()>& make_group) {
  for (const Ending ending : {Ending::kLeaves, Ending::kAborts}) {
    for (int at = 0; at < kCalls; ++at) {
      const auto seed = static_cast<uint64_t>(at);
      const int victim = at % kRanks;
      const auto outcomes = run_broken(make_group(), victim, at, ending, seed);
      for (int rank = 0; rank < kRanks; ++rank) {
        const Outcome& outcome = outcomes[static_cast<size_t>(rank)];
        CAPTURE(at, victim, rank, outcome.error);
        CHECK(outcome.wrong == "");
        if (rank == victim) continue;
        // An abort may overtake a call that this rank has not finished yet; leaving may not.
        if (ending == Ending::kLeaves) CHECK(outcome.done == at);
        CHECK(outcome.done <= at);
        CHECK_THAT(outcome.error, Catch::Contains(fmt::format("rank {}", victim)));
        CHECK(outcome.error_stays);
      }
    }
  }
}

TEST_CASE("a rank that goes between two calls ends the next one on all others, in shared memory",
          "[comm]") {
  check_everywhere([] { return make_thread_group(kRanks); });
}

TEST_CASE("a rank that goes between two calls ends the next one on all others, staged", "[comm]") {
  check_everywhere([] { return make_thread_group(kRanks, {.path = ShmOptions::Path::kStaged}); });
}

TEST_CASE("a rank that goes between two calls ends the next one on all others, over TCP",
          "[comm]") {
  check_everywhere([] { return make_tcp_group(kRanks); });
}

TEST_CASE("a group that was split off works while its parent is idle, and ends alone", "[comm]") {
  for (const bool over_tcp : {false, true}) {
    auto group = over_tcp ? make_tcp_group(kRanks) : make_thread_group(kRanks);
    std::vector<std::string> wrong(kRanks);
    std::vector<std::thread> threads;
    for (size_t r = 0; r < kRanks; ++r) {
      threads.emplace_back([&, r] {
        try {
          RankStream rank(*group[r]);
          {
            const auto part = group[r]->split(r == 2 ? 1 : 0, static_cast<int>(r));
            require(part->size() == (r == 2 ? 1 : 2), "rank {} is in a group of {}", r,
                    part->size());
            Tensor t = Tensor::empty({5}, DType::kI32, rank.stream);
            std::fill_n(t.data<int32_t>(), 5, 1);
            part->all_reduce(t, ReduceOp::kSum, rank.stream);
            require(t.data<int32_t>()[4] == part->size(), "a sum of {}", t.data<int32_t>()[4]);
          }
          run_call(*group[r], rank.stream, 1, 0);  // the parent goes on
        } catch (const std::exception& error) {
          wrong[r] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& text : wrong) CHECK(text == "");
  }
}

TEST_CASE("a step that repeats finds its blocks of shared memory where they were", "[comm]") {
  detail::ShmArena arena(size_t{64} << 20);
  const MemoryTag tag = MemoryTag::kBuckets;
  std::vector<void*> first;
  for (int step = 0; step < 3; ++step) {
    std::vector<void*> places;
    std::vector<std::pair<void*, size_t>> live;
    const Rng rng(9, "step");
    for (uint64_t i = 0; i < 200; ++i) {
      if (rng.bits(2 * i) % 3 == 0 && !live.empty()) {
        const size_t at = rng.bits(2 * i + 1) % live.size();
        arena.deallocate(live[at].first, live[at].second, tag);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(at));
        continue;
      }
      const size_t bytes = 1 + rng.bits(2 * i + 1) % 200'000;
      live.emplace_back(arena.allocate(bytes, tag), bytes);
      places.push_back(live.back().first);
      if (bytes >= 4096) {
        CHECK(reinterpret_cast<uintptr_t>(live.back().first) % 4096 == 0);
      }
    }
    for (const auto& [pointer, bytes] : live) arena.deallocate(pointer, bytes, tag);
    if (step == 0) first = places;
    CHECK(places == first);
  }
  // All of it is one block again.
  void* const whole = arena.allocate(arena.reserved_bytes(), tag);
  CHECK(whole == arena.base());
  CHECK_THROWS_WITH(arena.allocate(1, tag), Catch::Contains("0 of 67108864 reserved are left"));
  arena.deallocate(whole, arena.reserved_bytes(), tag);
}

TEST_CASE("a place in shared memory is known to the last byte and not beyond", "[comm]") {
  detail::ShmArena arena(1);
  const size_t reserved = arena.reserved_bytes();  // whole growth steps
  CHECK(reserved >= 4096);
  const std::byte* const base = arena.base();
  CHECK(arena.offset_of(base, reserved) == 0);
  CHECK(arena.offset_of(base + 100, reserved - 100) == 100);
  CHECK_FALSE(arena.offset_of(base + 100, reserved - 99));
  CHECK_FALSE(arena.offset_of(base - 1, 1));
  CHECK_FALSE(arena.offset_of(base + reserved + 1, 0));
  CHECK_FALSE(arena.offset_of(base, SIZE_MAX));
}

TEST_CASE("a group of no ranks is refused, and names of segments are not guessed", "[comm]") {
  for (const int size : {0, -1}) {
    CHECK_THROWS_WITH(make_thread_group(size),
                      Catch::Contains(fmt::format("{} ranks, expected at least 1", size)));
  }
  const std::string a = random_shm_name(), b = random_shm_name();
  CHECK(a != b);
  CHECK(a.size() >= 32);
  CHECK(a.find('/') == std::string::npos);
}

}  // namespace
}  // namespace ds
