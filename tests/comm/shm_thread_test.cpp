#include <mutex>
#include <set>

#include "comm/traced_comm.h"
#include "tests/suites/communicator_suite.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using ds::test::RankStream;
using ds::test::run_group;
using ds::test::run_ranks;
using namespace std::chrono_literals;

namespace {

const ShmOptions kStaged{.timeout = 30s, .path = ShmOptions::Path::kStaged, .arena_bytes = 0};

void run_suite(int size, const std::function<std::vector<std::unique_ptr<Communicator>>()>& make) {
  for (const auto& suite_case : ds::test::communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name << ", " << size << " ranks") {
      CHECK_NOTHROW(run_group(make(), suite_case.body));
    }
  }
}

}  // namespace

TEST_CASE("ranks as threads conform, reading each other's tensors", "[comm]") {
  const int size = GENERATE(range(1, 9));
  run_suite(size, [&] { return make_thread_group(size); });
}

TEST_CASE("ranks as threads conform through the staging area", "[comm]") {
  const int size = GENERATE(2, 3, 4, 7);
  run_suite(size, [&] { return make_thread_group(size, kStaged); });
}

TEST_CASE("a traced group conforms", "[comm]") {
  CommVolume volume;
  ManualClock clock;
  Ledger ledger(64, clock);
  run_suite(3, [&] {
    auto group = make_thread_group(3);
    for (auto& comm : group) {
      comm = std::make_unique<TracedComm>(std::move(comm), "data",
                                          TracedComm::Sinks{&volume, &ledger});
    }
    return group;
  });
}

TEST_CASE("direct and staged collectives give the same bits", "[comm]") {
  const int size = GENERATE(2, 3, 5);
  std::mutex mutex;
  std::vector<std::set<uint64_t>> digests(static_cast<size_t>(size));
  for (const ShmOptions& options : {ShmOptions{}, kStaged}) {
    run_ranks(
        size,
        [&](Communicator& comm) {
          const uint64_t digest = ds::test::result_digest(comm, comm.memory());
          const std::lock_guard lock(mutex);
          digests[static_cast<size_t>(comm.rank())].insert(digest);
        },
        options);
  }
  for (const auto& digest : digests) CHECK(digest.size() == 1);
}

TEST_CASE("ranks as threads that disagree are told so", "[comm]") {
  const int size = GENERATE(2, 3);
  for (const auto& disagreement : ds::test::disagreement_cases()) {
    DYNAMIC_SECTION(disagreement.name << ", " << size << " ranks") {
      CHECK_NOTHROW(run_ranks(
          size, [&](Communicator& comm) { ds::test::check_disagreement(comm, disagreement); }));
    }
  }
}

TEST_CASE("the first failure of a rank releases the others and is reported", "[comm]") {
  REQUIRE_THROWS_WITH(run_ranks(3,
                                [](Communicator& comm) {
                                  if (comm.rank() == 1) throw InternalError("rank 1 broke");
                                  comm.barrier();
                                }),
                      "rank 1 broke");
}

TEST_CASE("abort unblocks every pending call, also of groups split off", "[comm]") {
  run_ranks(3, [](Communicator& comm) {
    const auto group = comm.split(0, 0);
    RankStream rank(comm);
    if (comm.rank() == 0) {
      comm.abort();
      try {
        group->barrier();
      } catch (const CommError&) {
        return;
      }
      throw InternalError("a split group outlived its parent's abort");
    }
    try {
      Tensor t = Tensor::zeros({1}, DType::kF32, rank.stream);
      if (comm.rank() == 1) comm.all_reduce(t, ReduceOp::kSum, rank.stream);
      if (comm.rank() == 2) comm.recv(t, 0, rank.stream);
    } catch (const CommError& e) {
      ds::test::require(std::string(e.what()).find("rank 0 called abort()") != std::string::npos,
                        "message: {}", e.what());
      return;
    }
    throw InternalError("no CommError after abort");
  });
}

TEST_CASE("a rank that does not come in time is named, with where it is", "[comm]") {
  auto group = make_thread_group(3, {.timeout = 30ms});
  bool late_failed = false;  // Catch's assertions are for one thread at a time
  std::thread late([&] {
    try {
      group[2]->barrier();
    } catch (const CommError&) {
      late_failed = true;
    }
  });
  CHECK_THROWS_WITH(group[0]->barrier(), Catch::Contains("barrier #1 on rank 0") &&
                                             (Catch::Contains("no answer within 0.0 s from: rank 1 "
                                                              "(before its first call)") ||
                                              Catch::Contains("rank 2: no answer")));
  late.join();
  CHECK(late_failed);
}

TEST_CASE("a rank that left is an error at once, in collectives and receives", "[comm]") {
  auto group = make_thread_group(2);
  group[1].reset();
  CHECK_THROWS_WITH(group[0]->barrier(), Catch::Contains("rank 1 left the group"));
  group = make_thread_group(2);
  RankStream rank(*group[0]);
  Tensor t = Tensor::zeros({1}, DType::kF32, rank.stream);
  group[1].reset();
  CHECK_THROWS_WITH(group[0]->recv(t, 1, rank.stream), Catch::Contains("recv"));
}

TEST_CASE("a message of another size is refused by its receiver", "[comm]") {
  auto group = make_thread_group(2);
  RankStream rank(*group[0]);
  Tensor t = Tensor::zeros({3}, DType::kF32, rank.stream);
  group[0]->send(t, 1, rank.stream);
  Tensor larger = Tensor::zeros({4}, DType::kF32, rank.stream);
  CHECK_THROWS_WITH(group[1]->recv(larger, 0, rank.stream),
                    Catch::Contains("rank 0 sent fp32 x 3, rank 1 expects fp32 x 4"));
}
