#include <arpa/inet.h>
#include <dirent.h>
#include <sys/mman.h>

#include <atomic>
#include <set>

#include "comm/connect.h"
#include "comm/tcp/comm.h"
#include "comm/traced_comm.h"
#include "tests/suites/communicator_suite.h"
#include "tests/support/catch.h"
#include "tests/support/tcp_ranks.h"

using namespace ds;
using ds::test::check_all_done;
using ds::test::comm_error_of;
using ds::test::make_tcp_group;
using ds::test::RankStream;
using ds::test::require;
using ds::test::run_group;
using ds::test::run_tcp_processes;
using ds::test::TcpRanks;
using namespace std::chrono_literals;

namespace {

int open_descriptors() {
  int count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// Processes that are forked after it was made wait here for each other, but not by their ranks.
class Meeting {
 public:
  Meeting()
      : here_(static_cast<std::atomic<int>*>(mmap(nullptr, sizeof(std::atomic<int>),
                                                  PROT_READ | PROT_WRITE,
                                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {
    REQUIRE(here_ != MAP_FAILED);
  }
  ~Meeting() { munmap(here_, sizeof(std::atomic<int>)); }
  Meeting(const Meeting&) = delete;  // owns the memory
  Meeting& operator=(const Meeting&) = delete;

  // Returns when so many have come; those that wait in vain go on after a while.
  void wait_for(int count) const {
    ++*here_;
    for (int i = 0; i < 10'000 && *here_ < count; ++i) usleep(1000);
  }

 private:
  std::atomic<int>* here_;
};

}  // namespace

TEST_CASE("ranks as processes conform over TCP", "[comm]") {
  for (int size = 1; size <= 8; ++size) {
    CAPTURE(size);
    check_all_done(run_tcp_processes(size, [](Communicator& comm) {
      for (const auto& suite_case : ds::test::communicator_cases()) suite_case.body(comm);
    }));
  }
}

TEST_CASE("TCP and shared memory give the same bits", "[comm]") {
  for (const int size : {1, 2, 3, 5, 8}) {
    CAPTURE(size);
    const auto tell = [](Communicator& comm) {
      throw InternalError(fmt::format("{:x}", ds::test::result_digest(comm, comm.memory())));
    };
    const auto over_tcp = run_tcp_processes(size, tell);
    const auto over_memory = ds::test::run_process_ranks(size, tell);
    for (size_t r = 0; r < over_tcp.size(); ++r) CHECK(over_tcp[r].error == over_memory[r].error);
  }
}

TEST_CASE("processes that disagree over TCP are told so", "[comm]") {
  for (const int size : {2, 3}) {
    for (const auto& disagreement : ds::test::disagreement_cases()) {
      CAPTURE(size, disagreement.name);
      check_all_done(run_tcp_processes(
          size, [&](Communicator& comm) { ds::test::check_disagreement(comm, disagreement); }));
    }
  }
}

TEST_CASE("a disagreement in one group leaves the others whole", "[comm]") {
  check_all_done(run_tcp_processes(3, [](Communicator& comm) {
    for (const auto& disagreement : ds::test::disagreement_cases()) {
      const auto group = comm.split(0, 0);
      ds::test::check_disagreement(*group, disagreement);
    }
    for (const auto& suite_case : ds::test::communicator_cases()) suite_case.body(comm);
  }));
}

TEST_CASE("the death of a rank is noticed over TCP by all others within a second", "[comm]") {
  const Meeting noticed;
  const auto results = run_tcp_processes(4, [&](Communicator& comm) {
    RankStream rank(comm);
    const auto half = comm.split(comm.rank() % 2, 0);
    if (comm.rank() == 2) {
      comm.barrier();
      kill(getpid(), SIGKILL);
    }
    const std::string text = comm_error_of(1s, [&] {
      comm.barrier();  // another rank may be through it, and notice the death, before this one is
      Tensor t = Tensor::zeros({100'000}, DType::kF32, rank.stream);
      if (comm.rank() == 0) half->all_reduce(t, ReduceOp::kSum, rank.stream);
      if (comm.rank() == 1) comm.recv(t, 2, rank.stream);
      if (comm.rank() == 3) comm.all_reduce(t, ReduceOp::kSum, rank.stream);
    });
    noticed.wait_for(3);  // nobody hears first that one who has noticed it left
    // In the group that was split off, rank 2 of the world is rank 1; rank 0 may also hear from
    // those who noticed it in the whole world.
    const bool named = text.find("rank 2 died") != std::string::npos ||
                       (comm.rank() == 0 && text.find("rank 1 died") != std::string::npos);
    require(named, "rank {}: {}", comm.rank(), text);
  });
  for (const size_t r : {0, 1, 3}) CHECK(results[r].error == "");
  CHECK(WIFSIGNALED(results[2].status));
}

TEST_CASE("a rank that dies in the middle of a large message is noticed", "[comm]") {
  const auto results = run_tcp_processes(2, [](Communicator& comm) {
    RankStream rank(comm);
    Tensor t = Tensor::zeros({int64_t{32} << 20}, DType::kF32, rank.stream);
    if (comm.rank() == 1) {
      signal(SIGALRM, [](int) { kill(getpid(), SIGKILL); });
      ualarm(20'000, 0);
      while (true) comm.broadcast(t, 1, rank.stream);
    }
    const std::string text = comm_error_of(20s, [&] {
      while (true) comm.broadcast(t, 1, rank.stream);
    });
    require(text.find("rank 1 died") != std::string::npos, "{}", text);
  });
  CHECK(results[0].error == "");
}

TEST_CASE("a message over TCP outlives its sender's last call", "[comm]") {
  check_all_done(run_tcp_processes(2, [](Communicator& comm) {
    RankStream rank(comm);
    constexpr int64_t kNumel = 3'000'000;  // more than the sockets hold
    Tensor t = Tensor::zeros({kNumel}, DType::kI32, rank.stream);
    if (comm.rank() == 0) {
      t.data<int32_t>()[kNumel - 1] = 7;
      comm.send(t, 1, rank.stream);
      t.data<int32_t>()[kNumel - 1] = 8;
    } else {
      usleep(20'000);  // the sender is on its way out by then
      comm.recv(t, 0, rank.stream);
      require(t.data<int32_t>()[kNumel - 1] == 7, "the message is wrong");
    }
  }));
}

TEST_CASE("everybody may send large messages before anybody receives", "[comm]") {
  check_all_done(run_tcp_processes(3, [](Communicator& comm) {
    RankStream rank(comm);
    const auto group = comm.split(0, 0);
    constexpr int64_t kNumel = 4'000'000;
    Tensor t = Tensor::zeros({kNumel}, DType::kF32, rank.stream);
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != comm.rank()) comm.send(t, peer, rank.stream);
    }
    // Another group's call moves them on, and must not be kept by them.
    Tensor sum = Tensor::zeros({1'000'000}, DType::kF32, rank.stream);
    group->all_reduce(sum, ReduceOp::kSum, rank.stream);
    for (int peer = 0; peer < 3; ++peer) {
      if (peer != comm.rank()) comm.recv(t, peer, rank.stream);
    }
  }));
}

TEST_CASE("ranks as threads conform over TCP, traced", "[comm]") {
  CommVolume volume;
  ManualClock clock;
  Ledger ledger(64, clock);
  for (const auto& suite_case : ds::test::communicator_cases()) {
    auto group = make_tcp_group(3);
    for (auto& comm : group) {
      comm = std::make_unique<TracedComm>(std::move(comm), "data",
                                          TracedComm::Sinks{&volume, &ledger});
    }
    CHECK_NOTHROW(run_group(std::move(group), suite_case.body));
  }
}

TEST_CASE("groups of one rank may be used by threads of their own", "[comm]") {
  run_group(make_tcp_group(3), [](Communicator& comm) {
    std::vector<std::unique_ptr<Communicator>> groups;
    for (int i = 0; i < 3; ++i) groups.push_back(comm.split(0, 0));
    std::mutex first_mutex;
    std::string first;
    std::vector<std::thread> threads;
    for (auto& group : groups) {
      threads.emplace_back([&] {
        RankStream rank(*group);
        try {
          for (int round = 0; round < 30; ++round) {
            Tensor t = Tensor::zeros({50'000}, DType::kI32, rank.stream);
            t.data<int32_t>()[49'999] = round;
            group->all_reduce(t, ReduceOp::kSum, rank.stream);
            require(t.data<int32_t>()[49'999] == 3 * round, "a wrong sum");
          }
        } catch (const std::exception& e) {
          const std::lock_guard lock(first_mutex);
          first = e.what();
        }
      });
    }
    for (auto& thread : threads) thread.join();
    require(first.empty(), "{}", first);
  });
}

TEST_CASE("abort over TCP unblocks every pending call, also of groups split off", "[comm]") {
  run_group(make_tcp_group(3), [](Communicator& comm) {
    RankStream rank(comm);
    if (comm.rank() == 0) {
      const auto group = comm.split(0, 0);
      comm.abort();
      (void)comm_error_of(1s, [&] { group->barrier(); });
      return;
    }
    const std::string text = comm_error_of(1s, [&] {
      const auto group = comm.split(0, 0);  // may be where the abort arrives
      Tensor t = Tensor::zeros({1}, DType::kF32, rank.stream);
      if (comm.rank() == 1) group->all_reduce(t, ReduceOp::kSum, rank.stream);
      if (comm.rank() == 2) comm.recv(t, 0, rank.stream);
    });
    require(text.find("rank 0 called abort()") != std::string::npos, "message: {}", text);
  });
}

TEST_CASE("abort from another thread ends this rank's own wait", "[comm]") {
  auto group = make_tcp_group(2);
  std::thread aborter([&] { group[0]->abort(); });
  CHECK_THROWS_WITH(group[0]->barrier(), Catch::Contains("rank 0 called abort()"));
  aborter.join();
}

TEST_CASE("a rank that stays silent over TCP is named", "[comm]") {
  auto group = make_tcp_group(3, {.timeout = 300ms});
  std::string late_error;
  std::thread late([&] { late_error = comm_error_of(5s, [&] { group[2]->barrier(); }); });
  CHECK_THROWS_WITH(group[0]->barrier(),
                    Catch::Contains("barrier #2 on rank 0") &&
                        (Catch::Contains("no answer within 0.3 s from: rank 1") ||
                         Catch::Contains("the group has failed: barrier #2 on rank 2: no answer")));
  late.join();
  CHECK_THAT(late_error, Catch::Contains("rank 1"));
}

TEST_CASE("a rank that left a TCP group is an error at once", "[comm]") {
  auto group = make_tcp_group(2);
  group[1].reset();
  CHECK_THROWS_WITH(group[0]->barrier(), Catch::Contains("rank 1 left the group"));
  group = make_tcp_group(2);
  RankStream rank(*group[0]);
  Tensor t = Tensor::zeros({1}, DType::kF32, rank.stream);
  group[1].reset();
  CHECK_THROWS_WITH(group[0]->recv(t, 1, rank.stream), Catch::Contains("recv"));
}

TEST_CASE("a message of another size is refused by its receiver over TCP", "[comm]") {
  auto group = make_tcp_group(2);
  RankStream rank(*group[0]);
  Tensor t = Tensor::zeros({3}, DType::kF32, rank.stream);
  group[0]->send(t, 1, rank.stream);
  Tensor larger = Tensor::zeros({4}, DType::kF32, rank.stream);
  CHECK_THROWS_WITH(group[1]->recv(larger, 0, rank.stream),
                    Catch::Contains("rank 0 sent fp32 x 3, rank 1 expects fp32 x 4"));
}

TEST_CASE("a TCP world leaves no descriptor open", "[comm]") {
  make_tcp_group(2);
  const int before = open_descriptors();
  for (int i = 0; i < 3; ++i) make_tcp_group(3);
  CHECK(open_descriptors() == before);
}

TEST_CASE("connect makes a TCP world", "[comm]") {
  auto ranks = std::make_shared<TcpRanks>(2);
  const auto join = [&](int rank) {
    return [=] {
      const auto comm = connect({.backend = "tcp",
                                 .rank = rank,
                                 .size = 2,
                                 .tcp = {.listener = std::move(ranks->listeners[rank == 0 ? 0 : 1]),
                                         .endpoints = ranks->world.endpoints,
                                         .secret = ranks->world.secret}});
      comm->barrier();
      require(comm->rank() == rank && comm->size() == 2, "a wrong rank or size");
    };
  };
  check_all_done(ds::test::run_processes({join(0), join(1)}));
}
