// What collectives say of themselves and check before anything moves: names, descriptions, costs,
// shapes, slices; and what a traced group counts.
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "comm/contract/collective_call.h"
#include "comm/contract/collective_checks.h"
#include "comm/contract/link_board.h"
#include "comm/contract/operation.h"
#include "comm/contract/slice_bounds.h"
#include "comm/ledger.h"
#include "comm/meta_comm.h"
#include "comm/traced_comm.h"
#include "comm/traffic_figures.h"
#include "tests/support/catch.h"
#include "tests/support/cpu_stream.h"

namespace ds {
namespace {

constexpr CommOp kOps[] = {CommOp::kBarrier,       CommOp::kAllReduce, CommOp::kAllGather,
                           CommOp::kReduceScatter, CommOp::kAllToAll,  CommOp::kBroadcast,
                           CommOp::kSend,          CommOp::kRecv,      CommOp::kSplit};

TEST_CASE("every operation has a name of its own, and what is none is told as unknown", "[comm]") {
  std::set<std::string_view> names;
  for (const CommOp op : kOps) CHECK(names.insert(name_of(op)).second);
  CHECK_FALSE(names.contains("unknown"));
  // A peer's memory may hold anything; naming it must not throw.
  CHECK(name_of(static_cast<CommOp>(200)) == "unknown");
  CHECK(name_of(static_cast<ReduceOp>(200)) == "unknown");
  CHECK(wire_bytes(static_cast<CommOp>(200), 4, 1000) == 0);
}

TEST_CASE("bytes on the wire are what an optimal algorithm moves, and none where nobody is",
          "[comm]") {
  for (const CommOp op : kOps) {
    CHECK(wire_bytes(op, 1, 1 << 20) == 0);
    CHECK(wire_bytes(op, 8, 0) == 0);
    for (int size = 2; size < 9; ++size) {
      // An all-reduce is a reduce-scatter and an all-gather; no operation costs more.
      CHECK(wire_bytes(op, size, 5040) <= wire_bytes(CommOp::kAllReduce, size, 5040));
      // More ranks never make a rank's share of a collective smaller.
      CHECK(wire_bytes(op, size, 5040) >= wire_bytes(op, size - 1, 5040));
    }
  }
  for (int size = 1; size < 9; ++size) {
    CHECK(wire_bytes(CommOp::kAllReduce, size, 5040) ==
          wire_bytes(CommOp::kReduceScatter, size, 5040) +
              wire_bytes(CommOp::kAllGather, size, 5040));
  }
}

TEST_CASE("a call is described by what its peers must agree on", "[comm]") {
  using detail::CollectiveCall;
  const CollectiveCall reduce{.sequence = 12,
                              .numel = 1024,
                              .op = CommOp::kAllReduce,
                              .reduce = ReduceOp::kAverage,
                              .in = DType::kBF16,
                              .out = DType::kBF16};
  CHECK(describe(reduce) == "all_reduce #12 of bf16 x 1024, average");
  CollectiveCall scatter = reduce;
  scatter.op = CommOp::kReduceScatter;
  scatter.out = DType::kF32;
  CHECK(describe(scatter) == "reduce_scatter #12 of bf16 x 1024 into fp32, average");
  CollectiveCall broadcast = reduce;
  broadcast.op = CommOp::kBroadcast;
  broadcast.root = 3;
  CHECK(describe(broadcast) == "broadcast #12 of bf16 x 1024 from root 3");
  CHECK(detail::describe({.sequence = 1, .op = CommOp::kBarrier}) == "barrier #1");
  CHECK(detail::describe({.sequence = 2, .op = CommOp::kSplit}) == "split #2");
  CHECK(detail::describe({.sequence = 3, .numel = 8, .op = CommOp::kAllGather, .in = DType::kU8}) ==
        "all_gather #3 of uint8 x 8");
  CHECK(detail::disagreement(0, reduce, 5, broadcast) ==
        "the ranks disagree: rank 0 calls all_reduce #12 of bf16 x 1024, average, "
        "rank 5 calls broadcast #12 of bf16 x 1024 from root 3");
  CHECK(reduce == reduce);
  CHECK_FALSE(reduce == broadcast);
}

TEST_CASE("shapes of collectives are refused with what each side has", "[comm]") {
  testing::CpuStream cpu;
  const auto tensor = [&](int64_t numel, DType dtype = DType::kF32) {
    return Tensor::zeros({numel}, dtype, cpu.stream);
  };
  const Tensor four = tensor(4), twelve = tensor(12);
  CHECK_NOTHROW(detail::check_all_gather(four, twelve, 3));
  CHECK_THROWS_WITH(
      detail::check_all_gather(four, twelve, 4),
      Catch::Contains("full has 12 elements of fp32, expected 16 of fp32 (shard of 4 times 4"));
  CHECK_THROWS_WITH(detail::check_all_gather(four, tensor(12, DType::kBF16), 3),
                    Catch::Contains("elements of bf16, expected 12 of fp32"));
  CHECK_NOTHROW(detail::check_reduce_scatter(twelve, four, 3));
  CHECK_NOTHROW(detail::check_reduce_scatter(tensor(12, DType::kF16), four, 3));
  CHECK_THROWS_WITH(detail::check_reduce_scatter(twelve, tensor(4, DType::kF16), 3),
                    Catch::Contains("fp32 into fp16"));
  CHECK_THROWS_WITH(detail::check_reduce_scatter(tensor(13), four, 3),
                    Catch::Contains("full has 13 elements, expected 12"));
  CHECK_NOTHROW(detail::check_all_to_all(twelve, tensor(12), 3));
  CHECK_THROWS_WITH(detail::check_all_to_all(twelve, tensor(12), 5),
                    Catch::Contains("a multiple of 5"));
  CHECK_THROWS_WITH(detail::check_all_to_all(twelve, twelve, 3),
                    Catch::Contains("in and out are the same"));
  CHECK_NOTHROW(detail::check_all_to_all(twelve, twelve, 1));
  for (const int root : {-1, 3}) {
    CHECK_THROWS_WITH(detail::check_root(root, 3),
                      Catch::Contains(fmt::format("root {} of a group of 3", root)));
  }
  CHECK_NOTHROW(detail::check_root(2, 3));
  for (const int peer : {-1, 1, 3}) {
    CHECK_THROWS_WITH(detail::check_peer("recv", 1, peer, 3),
                      Catch::Contains(fmt::format("recv: peer {} of rank 1", peer)));
  }
  CHECK_NOTHROW(detail::check_peer("send", 1, 2, 3));
}

TEST_CASE("slices of any tensor cover it once and start on cache lines", "[comm]") {
  for (int size = 1; size < 10; ++size) {
    for (const int64_t numel : {0, 1, 63, 64, 65, 500, 4096, 100'003}) {
      const std::vector<int64_t> bounds = detail::aligned_bounds(size, numel);
      CAPTURE(size, numel);
      REQUIRE(bounds.size() == static_cast<size_t>(size) + 1);
      CHECK(bounds.front() == 0);
      CHECK(bounds.back() == numel);
      for (size_t r = 0; r + 1 < bounds.size(); ++r) {
        REQUIRE(bounds[r] <= bounds[r + 1]);
        REQUIRE(bounds[r] % 64 == 0);
        // No rank has more than its share and two lines.
        REQUIRE(bounds[r + 1] - bounds[r] <= numel / size + 1 + 2 * 64);
      }
    }
    CHECK(detail::equal_bounds(size, 7).back() == 7 * size);
    CHECK(detail::equal_bounds(size, 7)[1] == 7);
  }
  // The product of a large length and a rank must not wrap.
  const int64_t large = std::numeric_limits<int64_t>::max() / 2;
  const std::vector<int64_t> bounds = detail::aligned_bounds(1000, large);
  for (size_t r = 0; r + 1 < bounds.size(); ++r) REQUIRE(bounds[r] <= bounds[r + 1]);
}

TEST_CASE("a traced group counts by axis and operation, groups that are split off too", "[comm]") {
  struct Listing final : Trace {
    void on_op(std::string_view name, const OpCost& cost) override {
      lines.push_back(fmt::format("{} {}", name, cost.bytes));
    }
    std::vector<std::string> lines;
  };
  // A group of nobody whose splits are groups of nobody.
  class Splitting final : public Communicator {
   public:
    explicit Splitting(int size) : meta_(0, size) {}
    int rank() const override { return 0; }
    int size() const override { return meta_.size(); }
    SumOrder sum_order() const override { return SumOrder::kRank; }
    void all_reduce(Tensor& t, ReduceOp op, Stream& s) override { meta_.all_reduce(t, op, s); }
    void all_gather(const Tensor& a, Tensor& b, Stream& s) override { meta_.all_gather(a, b, s); }
    void reduce_scatter(const Tensor& a, Tensor& b, ReduceOp op, Stream& s) override {
      meta_.reduce_scatter(a, b, op, s);
    }
    void all_to_all(const Tensor& a, Tensor& b, Stream& s) override { meta_.all_to_all(a, b, s); }
    void broadcast(Tensor& t, int root, Stream& s) override { meta_.broadcast(t, root, s); }
    void send(const Tensor& t, int to, Stream& s) override { meta_.send(t, to, s); }
    void recv(Tensor& t, int from, Stream& s) override { meta_.recv(t, from, s); }
    void barrier() override {}
    std::unique_ptr<Communicator> split(int color, int) override {
      return std::make_unique<Splitting>(color);
    }
    void abort() noexcept override {}
    MemoryResource& memory() override { return meta_.memory(); }

   private:
    MetaComm meta_;
  };
  Listing trace;
  MetaMemory memory;
  Stream stream({.device = Device::meta(), .memory = &memory, .trace = &trace});
  CommVolume volume;
  ManualClock clock;
  Ledger ledger(20, clock);
  TracedComm traced(std::make_unique<Splitting>(4), "data", {&volume, &ledger});
  Tensor full = Tensor::empty({40}, DType::kF32, stream);
  Tensor shard = Tensor::empty({10}, DType::kF32, stream);
  Tensor other = Tensor::empty({40}, DType::kF32, stream);
  traced.all_gather(shard, full, stream);
  traced.reduce_scatter(full, shard, ReduceOp::kSum, stream);
  traced.all_to_all(full, other, stream);
  traced.broadcast(full, 2, stream);
  traced.send(full, 1, stream);
  traced.recv(full, 1, stream);
  traced.barrier();
  const auto half = traced.split(2, 0);
  half->all_reduce(full, ReduceOp::kSum, stream);
  half->all_reduce(full, ReduceOp::kSum, stream);
  CHECK(trace.lines == std::vector<std::string>{"all_gather 120", "reduce_scatter 120",
                                                "all_to_all 120", "broadcast 160", "send 160",
                                                "recv 0", "all_reduce 160", "all_reduce 160"});
  const CommVolume::ByAxis totals = volume.totals();
  REQUIRE(totals.size() == 1);
  const CommVolume::ByOp& data = totals.at("data");
  CHECK(data.at("all_reduce") == CommVolume::Count{2, 320, 320});
  CHECK(data.at("recv") == CommVolume::Count{1, 160, 0});
  CHECK(data.at("barrier") == CommVolume::Count{1, 0, 0});
  CHECK(data.at("split") == CommVolume::Count{1, 0, 0});
  CHECK(volume.wire_bytes() == 3 * 120 + 2 * 160 + 320);
  // The group that was split off counts its own calls from 1.
  CHECK(ledger.entries().size() == 10);
  CHECK(ledger.entries()[7].sequence == 8);
  CHECK(ledger.entries()[8].sequence == 1);
  CHECK(ledger.entries()[9].sequence == 2);
  volume.reset();
  CHECK(volume.totals().empty());
  CHECK(volume.wire_bytes() == 0);
  CHECK_THROWS_WITH(TracedComm(nullptr, "data", {}), Catch::Contains("nothing to trace"));
}

TEST_CASE("a traced call that its group refuses is told nowhere as traffic", "[comm]") {
  MetaMemory memory;
  Stream stream({.device = Device::meta(), .memory = &memory});
  CommVolume volume;
  ManualClock clock;
  Ledger ledger(4, clock);
  TracedComm traced(std::make_unique<MetaComm>(0, 4), "data", {&volume, &ledger});
  Tensor full = Tensor::empty({41}, DType::kF32, stream);
  const Tensor shard = Tensor::empty({10}, DType::kF32, stream);
  CHECK_THROWS_AS(traced.all_gather(shard, full, stream), InternalError);
  CHECK(volume.totals().empty());
  REQUIRE(ledger.current());
  CHECK(ledger.current()->exit_ns == -1);
  CHECK(ledger.current()->op == CommOp::kAllGather);
  // Neither sink is needed.
  TracedComm silent(std::make_unique<MetaComm>(0, 4), "data", {});
  CHECK_NOTHROW(silent.barrier());
}

TEST_CASE("a ledger before its first entry has nothing, and one of no room is refused", "[comm]") {
  ManualClock clock;
  Ledger ledger(2, clock);
  CHECK_FALSE(ledger.current());
  CHECK(ledger.entries().empty());
  CHECK(ledger.to_text().empty());
  ledger.exit(1);
  CHECK(ledger.entries().empty());
  const uint64_t first = ledger.enter("world", 1, CommOp::kBarrier, 0, "");
  clock.advance(std::chrono::nanoseconds(3));
  ledger.exit(first);
  CHECK(ledger.to_text() == "1 world #1 barrier bytes=0 enter_ns=0 took_ns=3\n");
  ledger.exit(77);  // a number that was never given
  CHECK(ledger.current()->exit_ns == 3);
  CHECK_THROWS_WITH(Ledger(0, clock), Catch::Contains("capacity 0"));
}

TEST_CASE("a board shows what was posted last", "[comm]") {
  LinkBoard board;
  CHECK(board.troubles().empty());
  board.post({{1, true, "one"}, {2, false, "two"}});
  CHECK(board.troubles() == std::vector<LinkTrouble>{{1, true, "one"}, {2, false, "two"}});
  board.post({{3, false, "three"}});
  CHECK(board.troubles() == std::vector<LinkTrouble>{{3, false, "three"}});
  board.post({});
  CHECK(board.troubles().empty());
}

TEST_CASE("every collective of the log has a bandwidth, and several names for one are one",
          "[comm]") {
  const auto same = [](std::string_view a, std::string_view b) {
    const Bandwidth x = collective_bandwidth(a, 12345, 2.5, 6);
    const Bandwidth y = collective_bandwidth(b, 12345, 2.5, 6);
    return x.algorithm == y.algorithm && x.bus == y.bus;
  };
  CHECK(same("all_gather", "all_gather_into_tensor"));
  CHECK(same("all_gather", "reduce_scatter_tensor"));
  CHECK(same("all_reduce", "inference_all_reduce"));
  CHECK(same("all_to_all", "all_to_all_single"));
  for (const char* op :
       {"send", "recv", "isend", "irecv", "broadcast", "reduce", "gather", "scatter", "barrier"}) {
    CAPTURE(op);
    CHECK(same(op, "send"));
    const Bandwidth alone = collective_bandwidth(op, 1'000'000, 1, 1);
    CHECK(alone.algorithm == alone.bus);
  }
  CHECK_THROWS_WITH(collective_bandwidth("all_reduce", 5, -1, 2),
                    Catch::Contains("5 bytes in -1 ms over 2 ranks"));
  CHECK_THROWS_AS(collective_bandwidth("all_reduce", 5, 1, 0), InternalError);
}

TEST_CASE("a trimmed mean is of the middle, whatever the order, and refuses no fraction",
          "[comm]") {
  CHECK(trimmed_mean(std::vector<double>{9, 1, 5}, 0) == Approx(5));
  CHECK(trimmed_mean(std::vector<double>{100, 4, 2, 3, -50}, 0.2) == Approx(3));
  // Half of a value to cut is rounded to even: none of five, two of fifteen tenths.
  CHECK(trimmed_mean(std::vector<double>{1, 2, 3, 4, 10}, 0.1) == Approx(4));
  CHECK_THROWS_WITH(trimmed_mean(std::vector<double>{1}, 1.5), Catch::Contains("1.5 is outside"));
}

}  // namespace
}  // namespace ds
