// NcclComm over the stand-in of NCCL, on the emulated device.
#include "comm/connect.h"
#include "comm/traced_comm.h"
#include "core/device/step_graph.h"
#include "tests/suites/communicator_suite.h"
#include "tests/suites/communicator_values.h"
#include "tests/support/catch.h"
#include "tests/support/nccl_ranks.h"

using namespace ds;
using namespace ds::test;
using namespace std::chrono_literals;

TEST_CASE("NCCL's groups conform", "[comm][nccl]") {
  const int size = GENERATE(1, 2, 3, 5);
  const NcclOptions options{.scratch_bytes = size_t{32} << 10};
  for (const CommunicatorCase& suite_case : communicator_cases()) {
    DYNAMIC_SECTION(suite_case.name << ", " << size << " ranks") {
      CHECK_NOTHROW(run_nccl_ranks(size, options, [&](const NcclRank& rank) {
        HostFace comm(open_nccl_group(rank.hosts, rank.options), rank.device);
        suite_case.body(comm);
      }));
    }
  }
}

TEST_CASE("sums in fp32 of bf16 gradients pass through little scratch in pieces", "[comm][nccl]") {
  run_nccl_ranks(3, {.scratch_bytes = 60}, [](const NcclRank& rank) {  // of 10 elements each
    HostFace comm(open_nccl_group(rank.hosts, rank.options), rank.device);
    RankStream host(comm);
    const Tensor full = values(comm.rank(), DType::kBF16, 75, host.stream);
    Tensor shard = Tensor::zeros({25}, DType::kF32, host.stream);
    comm.reduce_scatter(full, shard, ReduceOp::kSum, host.stream);
    // In rank order, and rounded nowhere: the bits of the CPU's transports.
    const auto expected =
        reduced(3, DType::kBF16, DType::kF32, ReduceOp::kSum, 25 * comm.rank(), 25);
    require(std::memcmp(shard.raw(), expected.data(), expected.size()) == 0, "another sum");
    try {
      comm.reduce_scatter(full, shard, ReduceOp::kMax, host.stream);
    } catch (const Unsupported& refused) {
      require(std::string(refused.what()).find("data_types.grad_accum_dtype") != std::string::npos,
              "{}", refused.what());
      return;
    }
    throw InternalError("a maximum into fp32 was not refused");
  });
}

TEST_CASE("calls of NCCL return before the work is done, and are done in the stream's order",
          "[comm][nccl]") {
  run_nccl_ranks(2, {}, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    Stream& stream = rank.device.stream;
    Tensor sum = rank.device.floats({1, 2});
    comm->all_reduce(sum, ReduceOp::kSum, stream);
    const Event after = stream.mark();
    require(!after.ready(), "the call has waited for the stream");
    comm->all_reduce(sum, ReduceOp::kSum, stream);
    const auto values = rank.device.read(sum);
    require(values == std::vector<float>{4, 8}, "got {} and {}", values[0], values[1]);
    require(after.ready() && &comm->memory() == rank.device.memory.get(), "after the wait");
    comm->check();
  });
}

TEST_CASE("collectives are recorded into graphs and replayed", "[comm][nccl]") {
  run_nccl_ranks(3, {.scratch_bytes = 600}, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    Stream& stream = rank.device.stream;
    Tensor sum = rank.device.floats({1});
    const Tensor gradients = Tensor::zeros({9}, DType::kBF16, stream);
    Tensor shard = Tensor::zeros({3}, DType::kF32, stream);
    const auto step = [&] {
      comm->all_reduce(sum, ReduceOp::kSum, stream);
      comm->reduce_scatter(gradients, shard, ReduceOp::kAverage, stream);
    };
    step();
    StepGraph graph;
    graph.record(stream, step);
    require(rank.device.read(sum) == std::vector<float>{3}, "recorded work was done");
    graph.replay(stream);
    graph.replay(stream);
    require(rank.device.read(sum) == std::vector<float>{27}, "two replays");
  });
}

TEST_CASE("what graphs replay is counted and in the ledger as what is called", "[comm][nccl]") {
  run_nccl_ranks(2, {}, [](const NcclRank& rank) {
    MonotonicClock clock;
    CommVolume volume;
    Ledger ledger(8, clock);
    RecordedCalls recorded;
    TracedComm comm(open_nccl_group(rank.hosts, rank.options), "data",
                    {.volume = &volume, .ledger = &ledger, .recorded = &recorded});
    require(comm.is_recordable(), "calls of NCCL can be recorded");
    Stream& stream = rank.device.stream;
    Tensor sum = rank.device.floats({1, 2});
    const auto step = [&] {
      const Span span(stream, "a layer");
      comm.all_reduce(sum, ReduceOp::kSum, stream);
    };
    step();
    const CommVolume::Count once = volume.totals()["data"]["all_reduce"];
    StepGraph graph;
    graph.record(stream, step);
    require(volume.totals()["data"]["all_reduce"] == once, "what was recorded was counted");
    const std::vector<RecordedCall> calls = recorded.take();
    require(calls.size() == 1 && recorded.take().empty(), "one call was recorded");
    for (int i = 0; i < 2; ++i) replay_calls(calls, stream, [&] { graph.replay(stream); });
    stream.synchronize();
    const CommVolume::Count counted = volume.totals()["data"]["all_reduce"];
    require(counted.calls == 3 * once.calls && counted.wire_bytes == 3 * once.wire_bytes,
            "replays were not counted");
    const std::vector<LedgerEntry> entries = ledger.entries();
    require(entries.size() == 3, "the ledger lacks replays");
    const LedgerEntry& last = entries.back();
    require(last.sequence == 3 && last.label == "a layer" && last.bytes == 8 && last.exit_ns >= 0,
            "the replay's entry");
  });
}

TEST_CASE("memory that was registered stays usable until the group ends", "[comm][nccl]") {
  run_nccl_ranks(2, {}, [](const NcclRank& rank) {
    Tensor sum = rank.device.floats({1});
    NcclOptions options = rank.options;
    options.block = {.data = sum.address(), .bytes = sum.bytes()};
    const auto comm = open_nccl_group(rank.hosts, options);
    const auto part = comm->split(0, 0);
    part->all_reduce(sum, ReduceOp::kSum, rank.device.stream);
    require(rank.device.read(sum) == std::vector<float>{2}, "the sum");
  });
}

TEST_CASE("tensors and streams of the host are refused by name", "[comm][nccl]") {
  run_nccl_ranks(1, {}, [](const NcclRank& rank) {
    const auto comm = open_nccl_group(rank.hosts, rank.options);
    RankStream host(rank.hosts);
    Tensor near = Tensor::zeros({2}, DType::kF32, host.stream);
    Tensor far = rank.device.floats({1});
    const auto words = [&](Tensor& tensor, Stream& stream) -> std::string {
      try {
        comm->all_reduce(tensor, ReduceOp::kSum, stream);
      } catch (const InternalError& refused) {
        return refused.what();
      }
      return "nothing";
    };
    require(words(near, rank.device.stream)
                    .find("all_reduce: NCCL moves what lies on cuda:0, this tensor is on cpu") !=
                std::string::npos,
            "{}", words(near, rank.device.stream));
    require(
        words(far, host.stream).find("streams of cuda:0, this is one of cpu") != std::string::npos,
        "{}", words(far, host.stream));
  });
}

TEST_CASE("connect opens NCCL over the hosts' communicator", "[comm][nccl]") {
  run_nccl_ranks(2, {}, [](const NcclRank& rank) {
    const auto comm = connect({.backend = "nccl",
                               .rank = rank.hosts.rank(),
                               .size = rank.hosts.size(),
                               .nccl = {.hosts = &rank.hosts, .options = rank.options}});
    Tensor sum = rank.device.floats({1});
    comm->all_reduce(sum, ReduceOp::kSum, rank.device.stream);
    require(rank.device.read(sum) == std::vector<float>{2}, "the sum");
  });
  CHECK_THROWS_WITH(connect({.backend = "nccl"}),
                    Catch::Contains("over a communicator of the hosts"));
}
