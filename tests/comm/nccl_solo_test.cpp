// NCCL's group of one rank: what a machine with one GPU can show of the real library, which
// programs that train there do not open.
#include <cstdio>

#include "core/device/step_graph.h"
#include "tests/support/catch.h"
#include "tests/support/nccl_ranks.h"
#include "tests/support/test_device.h"

using namespace ds;
using namespace ds::test;

TEST_CASE("a group of one rank computes, and is recorded and replayed", "[comm][.][nccl_solo]") {
  if (testing::test_device().device == Device::cpu()) {
    std::puts("skipped: --device names no device");
    return;
  }
  try {
    run_nccl_ranks(1, {}, [](const NcclRank& rank) {
      const auto comm = open_nccl_group(rank.hosts, rank.options);
      Stream& stream = rank.device.stream;
      Tensor sum = rank.device.floats({1, -2});
      const Tensor gradients = rank.device.floats({3, 4, 5});
      Tensor shard = Tensor::zeros({3}, DType::kF32, stream);
      Tensor whole = Tensor::zeros({3}, DType::kF32, stream);
      const auto step = [&] {
        comm->all_reduce(sum, ReduceOp::kSum, stream);
        comm->reduce_scatter(gradients, shard, ReduceOp::kAverage, stream);
        comm->all_gather(shard, whole, stream);
        comm->broadcast(whole, 0, stream);
      };
      const std::vector<float> expected{3, 4, 5};
      step();
      comm->check();
      require(rank.device.read(sum) == std::vector<float>{1, -2}, "a sum over one rank");
      require(rank.device.read(whole) == expected, "what was called");
      StepGraph graph;
      graph.record(stream, step);
      stream.fill_bytes(whole.address(), 0, whole.bytes());
      require(rank.device.read(whole) == std::vector<float>(3), "recorded work was done");
      graph.replay(stream);
      graph.replay(stream);
      require(rank.device.read(whole) == expected, "what was replayed");
      comm->check();
    });
  } catch (const Unsupported& missing) {
    WARN(missing.what());
  }
}
