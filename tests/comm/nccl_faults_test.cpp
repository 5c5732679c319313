// What goes wrong with NCCL, played by its stand-in: nobody hangs, and everybody is told what.
#include <atomic>

#include "comm/traced_comm.h"
#include "core/device/step_graph.h"
#include "tests/support/catch.h"
#include "tests/support/nccl_ranks.h"

using namespace ds;
using namespace ds::test;
using namespace std::chrono_literals;

namespace {

constexpr auto kAborted = 1000ms;  // by when who waits goes on
const NcclOptions kQuick{.timeout = 20s, .watch_every = 5ms};
const NcclOptions kImpatient{.timeout = 150ms, .watch_every = 5ms};

void require_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& each : words) {
    require(text.find(each) != std::string::npos, "no \"{}\" in: {}", each, text);
  }
}

// Gives the stream `calls` all_reduces, waits for it, and asks what came of it.
void reduce_and_wait(Communicator& comm, RankDevice& device, int calls) {
  Tensor sum = device.floats({1, 2, 3});
  for (int i = 0; i < calls; ++i) comm.all_reduce(sum, ReduceOp::kSum, device.stream);
  device.stream.synchronize();
  comm.check();
}

bool has_failed(Communicator& comm) {
  try {
    comm.check();
    return false;
  } catch (const CommError&) {
    return true;
  }
}

// The CommError of opening a group, on every rank, within `limit`.
void require_no_group(int size, const NcclOptions& options, std::chrono::milliseconds limit,
                      const std::vector<std::string>& words) {
  run_nccl_ranks(size, options, [&](const NcclRank& rank) {
    require_words(comm_error_of(limit, [&] { open_nccl_group(rank.hosts, rank.options); }), words);
  });
}

}  // namespace

TEST_CASE("abort ends a collective that hangs, and the peers hear of it", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 1, .hangs_in_call = 2});
  run_nccl_ranks(3, kQuick, [&](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    std::thread watchdog;
    if (rank.hosts.rank() == 1) {
      watchdog = std::thread([&] {
        while (hanging_calls() == 0) std::this_thread::yield();
        comm->abort();
      });
    }
    const std::string text =
        comm_error_of(kAborted + 5s, [&] { reduce_and_wait(*comm, rank.device, 3); });
    if (watchdog.joinable()) watchdog.join();
    require_words(text,
                  {fmt::format("rank {} of 3 on cuda:{}", rank.hosts.rank(), rank.hosts.rank()),
                   "called abort()"});
    // The call that its stream was in, or the one made last where it had not come so far.
    if (rank.hosts.rank() != 1) require_words(text, {"all_reduce #", " of fp32 x 3, sum"});
    Tensor more = rank.device.floats({1});
    comm_error_of(kAborted, [&] { comm->all_reduce(more, ReduceOp::kSum, rank.device.stream); });
    comm_error_of(kAborted, [&] { comm->barrier(); });
  });
}

TEST_CASE("a wait returns within a second of the abort", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 0, .hangs_in_call = 1});
  run_nccl_ranks(2, kQuick, [&](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    std::chrono::steady_clock::time_point at{};
    std::thread watchdog([&] {  // the other's may be earlier
      while (hanging_calls() == 0 && !has_failed(*comm)) std::this_thread::yield();
      at = std::chrono::steady_clock::now();
      comm->abort();
    });
    comm_error_of(20s, [&] { reduce_and_wait(*comm, rank.device, 1); });
    const auto now = std::chrono::steady_clock::now();
    watchdog.join();
    require(now - at < kAborted, "it took {} ms",
            std::chrono::duration_cast<std::chrono::milliseconds>(now - at).count());
  });
}

TEST_CASE("abort of the hosts ends an initialization that hangs", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 0, .init_hangs = true});
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    std::chrono::steady_clock::time_point at{};
    std::thread watchdog([&] {
      std::this_thread::sleep_for(50ms);  // it hangs, now or soon
      at = std::chrono::steady_clock::now();
      if (rank.hosts.rank() == 1) rank.hosts.abort();
    });
    comm_error_of(20s, [&] { open_nccl_group(rank.hosts, rank.options); });
    const auto now = std::chrono::steady_clock::now();
    watchdog.join();
    require(now - at < kAborted, "it took {} ms",
            std::chrono::duration_cast<std::chrono::milliseconds>(now - at).count());
  });
}

TEST_CASE("an initialization that hangs ends with the timeout", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 0, .init_hangs = true});
  require_no_group(2, kImpatient, 5s, {"initialization"});
}

TEST_CASE("an initialization that NCCL gives up is told in its words", "[comm][nccl]") {
  const PlayedFaults faults({.init_fails = true});
  std::atomic<int> in_its_words = 0;
  run_nccl_ranks(2, kQuick, [&](const NcclRank& rank) {
    const std::string error = comm_error_of(5s, [&] { open_nccl_group(rank.hosts, rank.options); });
    require_words(error, {"initialization"});
    if (error.find("NCCL says: system error") != std::string::npos) ++in_its_words;
  });
  CHECK(in_its_words >= 1);  // a rank that comes late may hear of the other one's end
}

TEST_CASE("a late id is waited for, and rank 0 is named where it does not come", "[comm][nccl]") {
  run_nccl_ranks(3, kQuick, [](const NcclRank& rank) {
    if (rank.hosts.rank() == 0) std::this_thread::sleep_for(100ms);
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    reduce_and_wait(*comm, rank.device, 1);
  });
  run_nccl_ranks(2, kImpatient, [](const NcclRank& rank) {
    if (rank.hosts.rank() == 0) return std::this_thread::sleep_for(600ms);
    require_words(comm_error_of(5s, [&] { open_nccl_group(rank.hosts, rank.options); }),
                  {"rank 0"});
  });
}

TEST_CASE("no id from NCCL is an error on every rank", "[comm][nccl]") {
  const PlayedFaults faults({.no_id = true});
  require_no_group(2, kQuick, 5s, {"NCCL gave no id: rank 0", "system error"});
}

TEST_CASE("an NCCL that is too old is refused on every rank, with its version", "[comm][nccl]") {
  const PlayedFaults faults({.version = 21805});
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    try {
      open_nccl_group(rank.hosts, rank.options);
    } catch (const Unsupported& refused) {
      return require_words(refused.what(), {"older than 2.19", "rank 0"});
    }
    throw InternalError("it was taken");
  });
}

TEST_CASE("an error that comes late names the call and ends the wait", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 1, .fails_in_call = 3});
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    const std::string text = comm_error_of(5s, [&] { reduce_and_wait(*comm, rank.device, 4); });
    require_words(text, rank.hosts.rank() == 1
                            ? std::vector<std::string>{"all_reduce #3 of fp32 x 3, sum: NCCL says: "
                                                       "remote error"}
                            : std::vector<std::string>{"all_reduce #", "rank 1 called abort()"});
  });
}

TEST_CASE("a call that NCCL refuses is told by the call", "[comm][nccl]") {
  const PlayedFaults faults({.refuses_call = 1});
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    Tensor sum = rank.device.floats({1});
    const std::string text =
        comm_error_of(5s, [&] { comm->all_reduce(sum, ReduceOp::kSum, rank.device.stream); });
    require_words(text, {"all_reduce #1 of fp32 x 1, sum: NCCL says: error"});
  });
}

TEST_CASE("a rank that does not come to a collective is waited for until the timeout",
          "[comm][nccl]") {
  run_nccl_ranks(2, kImpatient, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    if (rank.hosts.rank() == 1) {
      while (!has_failed(*comm)) std::this_thread::sleep_for(1ms);
      return require_words(comm_error_of(kAborted, [&] { comm->check(); }), {"called abort()"});
    }
    const std::string text = comm_error_of(5s, [&] { reduce_and_wait(*comm, rank.device, 1); });
    require_words(text, {"all_reduce #1 of fp32 x 3, sum: the device is not through with it within "
                         "0.1 s; it waits for other ranks"});
  });
}

TEST_CASE("a rank that does not come to a replay is waited for until the timeout", "[comm][nccl]") {
  run_nccl_ranks(2, kImpatient, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    Stream& stream = rank.device.stream;
    Tensor sum = rank.device.floats({1});
    StepGraph graph;
    graph.record(stream, [&] { comm->all_reduce(sum, ReduceOp::kSum, stream); });
    const std::string text = comm_error_of(kAborted + 5s, [&] {
      if (rank.hosts.rank() == 0) {
        Event begin = stream.mark();
        graph.replay(stream);
        comm->follow_replay(stream, std::move(begin));
        stream.synchronize();
      }
      while (!has_failed(*comm)) std::this_thread::sleep_for(1ms);
      comm->check();
    });
    if (rank.hosts.rank() == 0) require_words(text, {"a replay of recorded calls"});
  });
}

TEST_CASE("ranks that disagree do not hang", "[comm][nccl]") {
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    Tensor sum = rank.device.floats({1, 2});
    const std::string text = comm_error_of(5s, [&] {
      const ReduceOp op = rank.hosts.rank() == 0 ? ReduceOp::kSum : ReduceOp::kMax;
      comm->all_reduce(sum, op, rank.device.stream);
      rank.device.stream.synchronize();
      comm->check();
    });
    require_words(text, {"all_reduce #1 of fp32 x 2"});
  });
}

TEST_CASE("groups that are split off fail with the group, and not it with them", "[comm][nccl]") {
  run_nccl_ranks(2, kQuick, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    const auto part = comm->split(0, -rank.hosts.rank());
    require(part->rank() == 1 - rank.hosts.rank(), "the order of keys");
    reduce_and_wait(*part, rank.device, 1);
    comm->barrier();
    part->abort();
    comm_error_of(kAborted, [&] { part->check(); });
    reduce_and_wait(*comm, rank.device, 1);
    const auto other = comm->split(rank.hosts.rank(), 0);
    reduce_and_wait(*other, rank.device, 1);
    comm->barrier();
    comm->abort();
    comm_error_of(kAborted, [&] { other->check(); });
  });
}

TEST_CASE("the ledger names the collective in which a device hangs", "[comm][nccl]") {
  const PlayedFaults faults({.rank = 0, .hangs_in_call = 3});
  MonotonicClock clock;
  Ledger ledger(4, clock);
  run_nccl_ranks(2, kQuick, [&](const NcclRank& rank) {
    TracedComm comm(open_nccl_group(rank.hosts, rank.options), "data",
                    {.ledger = rank.hosts.rank() == 0 ? &ledger : nullptr});
    std::thread watchdog;
    if (rank.hosts.rank() == 0) {
      watchdog = std::thread([&] {
        while (hanging_calls() == 0) std::this_thread::yield();
        const auto stuck = ledger.current();  // more calls came after it than the ring has places
        comm.abort();
        require(stuck && stuck->exit_ns == -1 && stuck->group == "data" && stuck->sequence == 3 &&
                    stuck->op == CommOp::kAllReduce,
                "the ledger: {}", ledger.to_text());
      });
    }
    const std::string text = comm_error_of(5s, [&] { reduce_and_wait(comm, rank.device, 12); });
    if (watchdog.joinable()) watchdog.join();
    require_words(text, {"called abort()"});
  });
}
