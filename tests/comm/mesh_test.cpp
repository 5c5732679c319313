#include "comm/mesh.h"

#include "comm/traced_comm.h"
#include "tests/support/catch.h"
#include "tests/support/ranks.h"

using namespace ds;
using ds::test::RankStream;
using ds::test::require;
using ds::test::run_ranks;

TEST_CASE("every axis of a mesh sums over its peers and nobody else", "[comm]") {
  MeshSizes sizes;
  sizes.pipe = 2;
  sizes.data = 2;
  sizes.tensor = 2;
  sizes.expert = 2;
  run_ranks(8, [&](Communicator& world) {
    Mesh mesh = Mesh::over(world, sizes);
    RankStream rank(world);
    for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kTensor, Axis::kExpert,
                            Axis::kExpertData, Axis::kSequence}) {
      const auto peers = mesh.layout().peers(world.rank(), axis);
      Communicator& group = mesh.group(axis);
      require(group.size() == mesh.size(axis), "{}: size {}", to_string(axis), group.size());
      require(group.rank() == mesh.coordinate(axis), "{}: rank {}", to_string(axis), group.rank());
      Tensor t = Tensor::empty({1}, DType::kI32, rank.stream);
      *t.data<int32_t>() = 1 << world.rank();
      group.all_reduce(t, ReduceOp::kSum, rank.stream);
      int expected = 0;
      for (const int peer : peers) expected += 1 << peer;
      require(*t.data<int32_t>() == expected, "{}: {} instead of {}", to_string(axis),
              *t.data<int32_t>(), expected);
    }
  });
}

TEST_CASE("a mesh of the wrong size is refused", "[comm]") {
  MeshSizes sizes;
  sizes.data = 3;
  REQUIRE_THROWS_WITH(run_ranks(2, [&](Communicator& world) { Mesh::over(world, sizes); }),
                      Catch::Contains("multiply to 3 ranks, the world has 2"));
}

TEST_CASE("a meta mesh counts the traffic of one rank per axis without peers", "[comm]") {
  MeshSizes sizes;
  sizes.data = 4;
  sizes.tensor = 2;
  CommVolume volume;
  Mesh mesh = Mesh::meta(5, sizes, [&](Axis axis, std::unique_ptr<Communicator> inner) {
    return std::make_unique<TracedComm>(std::move(inner), std::string(to_string(axis)),
                                        TracedComm::Sinks{&volume, nullptr});
  });
  REQUIRE(mesh.coordinate(Axis::kData) == 2);
  MetaMemory memory;
  Stream stream({Device::meta(), &memory, nullptr, nullptr});
  Tensor t = Tensor::empty({1000}, DType::kBF16, stream);
  mesh.group(Axis::kData).all_reduce(t, ReduceOp::kAverage, stream);
  mesh.group(Axis::kTensor).all_reduce(t, ReduceOp::kSum, stream);
  const auto totals = volume.totals();
  REQUIRE(totals.at("data").at("all_reduce") == CommVolume::Count{1, 2000, 3000});
  REQUIRE(totals.at("tensor").at("all_reduce") == CommVolume::Count{1, 2000, 2000});
  REQUIRE(volume.wire_bytes() == 5000);
}
