// Groups for tensors of a device over groups of the host, with ranks that are threads, each with a
// queue of its own. The CPU has no such tensors: `--device emulated | cuda:N`.
#include "comm/staged_comm.h"

#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>

#include "comm/peers.h"
#include "core/device/step_graph.h"
#include "tests/suites/communicator_suite.h"
#include "tests/suites/communicator_values.h"
#include "tests/suites/on_device_comm.h"
#include "tests/suites/rank_device.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"
#include "tests/support/tcp_ranks.h"

namespace ds::test {
namespace {

using namespace std::chrono_literals;
using Group = std::vector<std::unique_ptr<Communicator>>;

using testing::has_no_device;
using testing::RankDevice;

constexpr size_t kPinned = StagedOptions().pinned_bytes;
constexpr size_t kSmall = size_t{32} << 10;  // the suite's longer tensors are many pieces
constexpr size_t kTiny = 1536;               // 768 a chunk

StagedOptions options_of(RankDevice& of, size_t pinned_bytes) {
  return {.memory = of.memory.get(), .pool = &of.pool, .pinned_bytes = pinned_bytes};
}

// For the suite, whose tensors lie on the host.
Group staged(Group group, size_t pinned_bytes) {
  for (auto& comm : group) {
    const auto rank = std::make_shared<RankDevice>();
    auto over = std::make_unique<StagedComm>(std::move(comm), options_of(*rank, pinned_bytes));
    comm = std::make_unique<OnDeviceComm>(rank, std::move(over));
  }
  return group;
}

// For tests that have tensors on the device themselves.
struct StagedRank {
  StagedComm& comm;
  RankDevice& device;
  Stream& stream;

  Tensor up(const std::vector<float>& values) const { return device.up(values); }
  std::vector<float> down(const Tensor& tensor) const { return device.down<float>(tensor); }
};

void run_staged(int size, size_t pinned_bytes, const std::function<void(StagedRank&)>& body,
                const ShmOptions& options = {}) {
  run_ranks(
      size,
      [&](Communicator& comm) {
        RankDevice device;
        StagedComm over(comm, options_of(device, pinned_bytes));
        StagedRank rank{over, device, device.stream};
        body(rank);
      },
      options);
}

void run_suite(const std::function<Group()>& make) {
  for (const CommunicatorCase& suite_case : communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name) { CHECK_NOTHROW(run_group(make(), suite_case.body)); }
  }
}

TEST_CASE("a staged group conforms", "[comm][device]") {
  if (has_no_device()) return;
  const int size = GENERATE(1, 2, 3);
  CAPTURE(size);
  run_suite([&] { return staged(make_thread_group(size), kPinned); });
}

TEST_CASE("a staged group of small chunks conforms", "[comm][device]") {
  if (has_no_device()) return;
  const int size = GENERATE(1, 2, 3);
  CAPTURE(size);
  run_suite([&] { return staged(make_thread_group(size), kSmall); });
}

TEST_CASE("a staged group conforms over TCP", "[comm][device]") {
  if (has_no_device()) return;
  run_suite([&] { return staged(make_tcp_group(3), size_t{64} << 10); });
}

TEST_CASE("tensors of a device are reduced to the bits of the host's, whatever the chunks",
          "[comm][device]") {
  if (has_no_device()) return;
  const int size = GENERATE(2, 3);
  std::mutex mutex;
  std::map<int, std::set<uint64_t>> digests;
  const auto add_digest = [&](Communicator& comm) {
    const uint64_t digest = result_digest(comm, comm.memory());
    const std::lock_guard lock(mutex);
    digests[comm.rank()].insert(digest);
  };
  run_group(make_thread_group(size), add_digest);
  for (const size_t pinned : {kPinned, kSmall}) {
    run_group(staged(make_thread_group(size), pinned), add_digest);
  }
  for (const auto& [rank, of_rank] : digests) CHECK(of_rank.size() == 1);
}

TEST_CASE("staged ranks that disagree are told so", "[comm][device]") {
  if (has_no_device()) return;
  for (const DisagreementCase& disagreement : disagreement_cases()) {
    DYNAMIC_SECTION(disagreement.name) {
      CHECK_NOTHROW(run_group(staged(make_thread_group(3), kPinned),
                              [&](Communicator& comm) { check_disagreement(comm, disagreement); }));
    }
  }
}

// 768 bytes of a chunk hold 176 elements of fp32 beside what keeps regions apart.
TEST_CASE("ranks whose pieces differ are told so", "[comm][device]") {
  if (has_no_device()) return;
  const auto error_of = [](int64_t of_rank_0, int64_t of_rank_1) {
    std::mutex mutex;
    std::string first;
    run_staged(2, kTiny, [&](StagedRank& rank) {
      const int64_t numel = rank.comm.rank() == 0 ? of_rank_0 : of_rank_1;
      Tensor t = Tensor::zeros({numel}, DType::kF32, rank.stream);
      const std::string text =
          comm_error_of(20s, [&] { rank.comm.all_reduce(t, ReduceOp::kSum, rank.stream); });
      comm_error_of(20s, [&] { rank.comm.barrier(); });
      const std::lock_guard lock(mutex);
      if (rank.comm.rank() == 0) first = text;
    });
    return first;
  };
  CHECK_THAT(error_of(1000, 1001),
             Catch::Contains("rank 0 calls all_reduce with 1000 elements in 6 pieces, rank 1 with "
                             "1001 in 6"));
  // The same first piece, and no second one.
  CHECK_THAT(error_of(176, 352), Catch::Contains("the ranks disagree") &&
                                     Catch::Contains("rank 1 calls all_gather #1 of uint8 x 32"));
}

TEST_CASE("lengths around the chunk's arrive whole, in place and not", "[comm][device]") {
  if (has_no_device()) return;
  constexpr int kSize = 3;
  run_staged(kSize, kTiny, [&](StagedRank& rank) {
    for (const int64_t numel : {57, 58, 59, 60, 117, 118, 175, 176, 177, 352, 353}) {
      std::vector<float> mine(to_size(numel));
      std::iota(mine.begin(), mine.end(), 1000.0F * static_cast<float>(rank.comm.rank()));
      std::vector<float> all;
      for (int r = 0; r < kSize; ++r) {
        for (int64_t i = 0; i < numel; ++i) all.push_back(static_cast<float>(1000 * r + i));
      }
      Tensor full = rank.up(std::vector<float>(to_size(kSize * numel), -1.0F));
      rank.comm.all_gather(rank.up(mine), full, rank.stream);
      require(rank.down(full) == all, "all_gather x {}", numel);
      Tensor inside = full.narrow(rank.comm.rank() * numel, numel);
      rank.stream.fill_bytes(full.narrow(0, rank.comm.rank() * numel).address(), 0,
                             to_size(rank.comm.rank() * numel) * sizeof(float));
      rank.comm.all_gather(inside, full, rank.stream);
      require(rank.down(full) == all, "all_gather in place x {}", numel);
      rank.comm.reduce_scatter(full, inside, ReduceOp::kSum, rank.stream);
      for (float& value : mine) value *= kSize;
      require(rank.down(inside) == mine, "reduce_scatter in place x {}", numel);
    }
  });
}

// Copies back are work of the stream that the call was given, and the next call has the chunk.
TEST_CASE("a chunk is not used again before its copies are done", "[comm][device]") {
  if (has_no_device()) return;
  run_staged(2, kTiny, [](StagedRank& rank) {
    Stream other({.device = rank.stream.device(), .memory = &rank.stream.memory()});
    const bool sends = rank.comm.rank() == 0;
    std::vector<Tensor> received;
    for (int call = 0; call < 6; ++call) {
      Stream& stream = call % 2 == 0 ? rank.stream : other;
      const std::vector<float> sent(150, static_cast<float>(call));
      Tensor t = Tensor::zeros({150}, DType::kF32, stream);
      if (sends) stream.copy(sent.data(), t.address(), t.bytes());
      if (call < 3) {
        rank.comm.broadcast(t, 0, stream);
      } else if (sends) {
        rank.comm.send(t, 1, stream);
      } else {
        rank.comm.recv(t, 0, stream);
      }
      received.push_back(t);
    }
    other.synchronize();
    for (int call = 0; call < 6; ++call) {
      require(rank.down(nth(received, call)) == std::vector<float>(150, static_cast<float>(call)),
              "call {}", call);
    }
  });
}

TEST_CASE("tensors of the host pass a staged group as they are", "[comm][device]") {
  if (has_no_device()) return;
  run_staged(2, kTiny, [](StagedRank& rank) {
    Connections connections = Connections::over(rank.comm, {.data = 2});
    const std::vector<int> all = connections.peers().host.gather(std::vector{rank.comm.rank()});
    require(all == std::vector{0, 1}, "gather");
    Tensor t = rank.up({1, 2});
    connections.peers().tokens().all_reduce(t, ReduceOp::kSum, rank.stream);
    require(rank.down(t) == std::vector<float>{2, 4}, "all_reduce");
    require(&rank.comm.memory() == &rank.stream.memory(), "memory");
    require(rank.comm.sum_order() == SumOrder::kRank, "sum_order");

    ThreadPool pool(1);
    HostMemory heap;
    Stream host({.memory = &heap, .pool = &pool});
    Tensor on_host = Tensor::zeros({2}, DType::kF32, host);
    try {
      rank.comm.all_reduce(on_host, ReduceOp::kSum, rank.stream);
    } catch (const InternalError& e) {
      require(std::string(e.what()).find("all_reduce: the tensor is on cpu, the stream of cuda:") !=
                  std::string::npos,
              "{}", e.what());
      return;
    }
    throw InternalError("a tensor of the host was not refused");
  });
}

TEST_CASE("abort of a staged group releases who waits, also between pieces", "[comm][device]") {
  if (has_no_device()) return;
  run_staged(3, kTiny, [](StagedRank& rank) {
    const auto group = rank.comm.split(0, 0);
    Tensor t = Tensor::zeros({100'000}, DType::kF32, rank.stream);
    const bool aborts = rank.comm.rank() == 0;
    const std::string text = comm_error_of(20s, [&] {
      const std::jthread aborter([&] {
        if (aborts) rank.comm.abort();
      });
      for (;;) rank.comm.all_reduce(t, ReduceOp::kSum, rank.stream);
    });
    require(aborts || text.find("rank 0 called abort()") != std::string::npos, "{}", text);
    comm_error_of(20s, [&] { group->barrier(); });
    // The stream is none the worse.
    rank.stream.fill_bytes(t.address(), 0, t.bytes());
    require(rank.down(t.narrow(99'999, 1)).front() == 0, "the stream's work is lost");
  });
}

TEST_CASE("a staged collective is refused where a graph is recorded", "[comm][device]") {
  if (has_no_device()) return;
  run_staged(2, kTiny, [](StagedRank& rank) {
    Tensor t = rank.up({1, 2, 3});
    StepGraph graph;
    std::string why;
    try {
      graph.record(rank.stream, [&] {
        require(rank.stream.is_recorded(), "is_recorded");
        rank.comm.all_reduce(t, ReduceOp::kSum, rank.stream);
      });
    } catch (const InternalError& e) {
      why = e.what();
    }
    require(why.find("graph: all_reduce: the group goes through memory of the host") !=
                std::string::npos,
            "{}", why);
    require(!rank.stream.is_recorded(), "is_recorded after the end");
    rank.comm.all_reduce(t, ReduceOp::kSum, rank.stream);
    require(rank.down(t) == std::vector<float>{2, 4, 6}, "all_reduce after the refusal");
  });
}

TEST_CASE("a staged group without what it needs is refused", "[comm][device]") {
  ThreadPool pool(1);
  HostMemory heap;
  const auto make = [&](const StagedOptions& options) {
    return StagedComm(std::move(make_thread_group(3).front()), options);
  };
  CHECK_THROWS_WITH(StagedComm(nullptr, {}), Catch::Contains("nothing to stage for"));
  CHECK_THROWS_WITH(make({}), Catch::Contains("no memory of the device given"));
  CHECK_THROWS_WITH(make({.memory = &heap, .pool = &pool, .pinned_bytes = 100}),
                    Catch::Contains("100 bytes of pinned memory, expected at least 512 for 3"));
  if (has_no_device()) return;
  CHECK_THROWS_WITH(make({.memory = &heap}), Catch::Contains("needs a thread pool"));
}

}  // namespace
}  // namespace ds::test
