// The two ends of a rank over one communicator: they count apart, and stay in one order.
#include "comm/peers.h"

#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using namespace ds::test;

TEST_CASE("both ends of a rank work, and count under names of their own", "[comm]") {
  run_ranks(3, [](Communicator& world) {
    CommVolume volume;
    MonotonicClock clock;
    Ledger ledger(8, clock);
    Connections connections =
        Connections::over(world, {.data = 3}, {.volume = &volume, .ledger = &ledger});
    const Peers peers = connections.peers();
    RankStream rank(peers.tokens());
    Tensor sum = Tensor::zeros({5}, DType::kF32, rank.stream);
    sum.data<float>()[4] = 1;
    peers.tokens().all_reduce(sum, ReduceOp::kSum, rank.stream);
    require(sum.data<float>()[4] == 3, "a wrong sum");
    require(peers.host.gather(std::vector{world.rank()}) == std::vector{0, 1, 2}, "wrong ranks");
    const CommVolume::ByAxis totals = volume.totals();
    require(totals.size() == 2, "{} names", totals.size());
    require(totals.at("data").at("all_reduce").tensor_bytes == 20, "tensors");
    require(totals.at("host").at("all_gather").tensor_bytes == 12, "talk");
    require(ledger.current()->group == "host" && ledger.current()->number == 2, "the ledger");
  });
}

TEST_CASE("tensors lie where the transport reads them best", "[comm]") {
  run_ranks(2, [](Communicator& world) {
    Connections connections = Connections::over(world, {.data = 2});
    require(&connections.peers().tokens().memory() == &world.memory(), "another memory");
  });
}

TEST_CASE("a rank that talks while another reduces is told at once", "[comm]") {
  run_ranks(2, [](Communicator& world) {
    Connections connections = Connections::over(world, {.data = 2});
    const Peers peers = connections.peers();
    RankStream rank(peers.tokens());
    const std::string error = comm_error_of(std::chrono::seconds(10), [&] {
      if (world.rank() == 0) {
        peers.host.gather(std::vector{1});
      } else {
        Tensor t = Tensor::zeros({8}, DType::kF32, rank.stream);
        peers.tokens().all_reduce(t, ReduceOp::kSum, rank.stream);
      }
    });
    require(error.find("all_gather") != std::string::npos, "{}", error);
    require(error.find("all_reduce") != std::string::npos, "{}", error);
  });
}

TEST_CASE("the ends of a dry run have peers that are not there", "[comm]") {
  CommVolume volume;
  Connections connections = Connections::meta(5, {.data = 4, .tensor = 2}, {.volume = &volume});
  const Peers peers = connections.peers();
  CHECK(peers.host.rank() == 5);
  CHECK(peers.host.size() == 8);
  CHECK(peers.tokens().rank() == 2);
  CHECK(peers.tokens().size() == 4);
  CHECK(peers.host.gather(std::vector{1.5}) == std::vector<double>(8, 0.0));
  CHECK(volume.totals().at("host").at("all_gather").tensor_bytes == 64);
  CHECK_THROWS_WITH(Connections::meta(8, {.data = 4, .tensor = 2}), Catch::Contains("rank 8 of 8"));
}
