#include <dirent.h>

#include "tests/suites/communicator_suite.h"
#include "tests/support/catch.h"
#include "tests/support/processes.h"
#include "tests/support/ranks.h"

using namespace ds;
using ds::test::check_all_done;
using ds::test::comm_error_of;
using ds::test::RankStream;
using ds::test::require;
using ds::test::run_process_ranks;
using ds::test::run_processes;
using namespace std::chrono_literals;

namespace {

bool segment_exists(const std::string& name) {
  return access(("/dev/shm/" + name).c_str(), F_OK) == 0;
}

}  // namespace

TEST_CASE("ranks as processes conform", "[comm]") {
  for (int size = 1; size <= 8; ++size) {
    CAPTURE(size);
    check_all_done(run_process_ranks(size, [](Communicator& comm) {
      for (const auto& suite_case : ds::test::communicator_cases()) suite_case.body(comm);
    }));
  }
}

TEST_CASE("processes and threads, arena and heap give the same bits", "[comm]") {
  const auto results = run_process_ranks(3, [](Communicator& comm) {
    HostMemory heap;
    const uint64_t near = ds::test::result_digest(comm, comm.memory());
    const uint64_t far = ds::test::result_digest(comm, heap);
    require(near == far, "rank {}: staged {:x}, direct {:x}", comm.rank(), far, near);
    throw InternalError(fmt::format("{:x}", near));  // the way to tell the parent
  });
  std::vector<std::string> by_threads(3);
  ds::test::run_ranks(3, [&](Communicator& comm) {
    by_threads[static_cast<size_t>(comm.rank())] =
        fmt::format("{:x}", ds::test::result_digest(comm, comm.memory()));
  });
  for (size_t r = 0; r < 3; ++r) {
    CHECK_THAT(results[r].error, Catch::StartsWith(by_threads[r]));
  }
}

TEST_CASE("processes that disagree are told so", "[comm]") {
  for (const auto& disagreement : ds::test::disagreement_cases()) {
    check_all_done(run_process_ranks(
        2, [&](Communicator& comm) { ds::test::check_disagreement(comm, disagreement); }));
  }
}

TEST_CASE("the death of a rank is noticed by all others within a second", "[comm]") {
  const auto results = run_process_ranks(4, [](Communicator& comm) {
    RankStream rank(comm);
    const auto half = comm.split(comm.rank() % 2, 0);
    comm.barrier();
    if (comm.rank() == 2) kill(getpid(), SIGKILL);
    const std::string text = comm_error_of(1s, [&] {
      Tensor t = Tensor::zeros({100'000}, DType::kF32, rank.stream);
      if (comm.rank() == 0) half->all_reduce(t, ReduceOp::kSum, rank.stream);
      if (comm.rank() == 1) comm.recv(t, 2, rank.stream);
      if (comm.rank() == 3) comm.all_reduce(t, ReduceOp::kSum, rank.stream);
    });
    require(
        text.find("rank 2 (pid ") != std::string::npos && text.find("died") != std::string::npos,
        "rank {}: {}", comm.rank(), text);
  });
  for (const size_t r : {0, 1, 3}) CHECK(results[r].error == "");
  CHECK(WIFSIGNALED(results[2].status));
}

TEST_CASE("a receive from a rank that died ends within a second", "[comm]") {
  const auto results = run_process_ranks(2, [](Communicator& comm) {
    RankStream rank(comm);
    Tensor t = Tensor::zeros({10}, DType::kF32, rank.stream);
    if (comm.rank() == 1) kill(getpid(), SIGKILL);
    const std::string text = comm_error_of(1s, [&] { comm.recv(t, 1, rank.stream); });
    require(text.find("died") != std::string::npos, "{}", text);
  });
  CHECK(results[0].error == "");
}

TEST_CASE("a message outlives its sender's last call", "[comm]") {
  check_all_done(run_process_ranks(2, [](Communicator& comm) {
    RankStream rank(comm);
    Tensor t = Tensor::zeros({5000}, DType::kI32, rank.stream);
    if (comm.rank() == 0) {
      t.data<int32_t>()[4999] = 7;
      comm.send(t, 1, rank.stream);
    } else {
      usleep(20'000);  // the sender is on its way out by then
      comm.recv(t, 0, rank.stream);
      require(t.data<int32_t>()[4999] == 7, "the message is wrong");
    }
  }));
}

TEST_CASE("a group that is not complete in time names the missing ranks and leaves no name",
          "[comm]") {
  const std::string name = random_shm_name();
  const auto join = [&](int rank) {
    return [=] {
      const std::string text =
          comm_error_of(2s, [&] { (void)open_shm_group(name, rank, 3, {.timeout = 100ms}); });
      require(text.find("waiting for rank 2") != std::string::npos, "{}", text);
    };
  };
  check_all_done(run_processes({join(0), join(1)}));
  CHECK(!segment_exists(name));
}

TEST_CASE("the segment has no name once the group is complete, and cannot be joined twice",
          "[comm]") {
  const std::string name = random_shm_name();
  const auto join = [&](int rank) {
    return [=] {
      const auto comm = open_shm_group(name, rank, 2);
      require(!segment_exists(name), "the name still exists");
      comm->barrier();
    };
  };
  check_all_done(run_processes({join(0), join(1)}));
  // A rank that is claimed twice: one of the claimants is refused, the group of the others stands.
  const auto results = run_processes(
      {join(0), join(1), [&] { open_shm_group(name, 1, 2, {.timeout = 2s})->barrier(); }});
  int refused = 0;
  for (const auto& result : results) refused += result.error.empty() ? 0 : 1;
  CHECK(refused == 1);
}

TEST_CASE("a segment left over from a killed start is replaced", "[comm]") {
  const std::string name = random_shm_name();
  const auto killed = run_processes({[&] {
    const auto watchdog = [](int) { kill(getpid(), SIGKILL); };
    signal(SIGALRM, watchdog);
    ualarm(50'000, 0);
    (void)open_shm_group(name, 0, 2);
  }});
  REQUIRE(WIFSIGNALED(killed[0].status));
  REQUIRE(segment_exists(name));
  const auto join = [&](int rank) { return [=] { open_shm_group(name, rank, 2)->barrier(); }; };
  check_all_done(run_processes({join(1), join(0)}));
  CHECK(!segment_exists(name));
}

TEST_CASE("a segment that others could open is refused", "[comm]") {
  const std::string name = random_shm_name();
  const std::string path = "/dev/shm/" + name;
  std::FILE* file = std::fopen(path.c_str(), "w");
  REQUIRE(file != nullptr);
  std::fputs("not a segment", file);
  std::fclose(file);
  CHECK_THROWS_WITH(open_shm_group(name, 1, 2, {.timeout = 50ms}), Catch::Contains("0600"));
  CHECK_THROWS_AS(open_shm_group("a/b", 1, 2), Error);
  unlink(path.c_str());
}

TEST_CASE("the arena refuses more than it reserved, and takes blocks back", "[comm]") {
  const auto comm = open_shm_group(random_shm_name(), 0, 1, {.arena_bytes = size_t{4} << 20});
  MemoryResource& memory = comm->memory();
  CHECK_THROWS_AS(memory.allocate(size_t{5} << 20, MemoryTag::kBuckets), OutOfMemory);
  void* const a = memory.allocate(size_t{3} << 20, MemoryTag::kBuckets);
  CHECK_THROWS_WITH(memory.allocate(size_t{2} << 20, MemoryTag::kBuckets),
                    Catch::Contains("buckets"));
  memory.deallocate(a, size_t{3} << 20, MemoryTag::kBuckets);
  void* const b = memory.allocate(100, MemoryTag::kBuckets);
  void* const c = memory.allocate(size_t{3} << 20, MemoryTag::kBuckets);
  CHECK(reinterpret_cast<uintptr_t>(b) % kMemoryAlignment == 0);
  memory.deallocate(b, 100, MemoryTag::kBuckets);
  memory.deallocate(c, size_t{3} << 20, MemoryTag::kBuckets);
  void* const whole = memory.allocate(size_t{4} << 20, MemoryTag::kBuckets);
  CHECK(whole == a);
  memory.deallocate(whole, size_t{4} << 20, MemoryTag::kBuckets);
}
