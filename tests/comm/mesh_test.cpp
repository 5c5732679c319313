#include "comm/mesh.h"

#include <latch>

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
  sizes.shard = 2;
  run_ranks(8, [&](Communicator& world) {
    Mesh mesh = Mesh::over(world, sizes);
    RankStream rank(world);
    for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kTensor, Axis::kExpert,
                            Axis::kExpertData, Axis::kSequence, Axis::kShard, Axis::kReplica}) {
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

TEST_CASE("only groups of some of the world are split off", "[comm]") {
  CommVolume volume;
  const auto splits_of = [&](int ranks, const MeshSizes& sizes) {
    volume.reset();
    run_ranks(ranks, [&](Communicator& bare) {
      TracedComm world(bare, "world", {&volume, nullptr});
      Mesh mesh = Mesh::over(world, sizes);
      for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kTensor, Axis::kExpert,
                              Axis::kExpertData, Axis::kSequence, Axis::kShard, Axis::kReplica}) {
        const bool is_world = &mesh.group(axis) == &world;
        require(is_world == (mesh.size(axis) == ranks), "{}: the world {}", to_string(axis),
                is_world);
      }
    });
    const auto totals = volume.totals();
    return totals.empty() ? 0 : totals.at("world").at("split").calls / ranks;
  };
  CHECK(splits_of(1, {}) == 0);
  CHECK(splits_of(3, {.data = 3}) == 0);
  CHECK(splits_of(4, {.data = 4, .expert = 2}) == 2);
  // Expert-data has the ranks of data; a pipe has a group more for gradients and one for its ends.
  CHECK(splits_of(4, {.pipe = 2, .data = 2}) == 4);
  CHECK(splits_of(8, {.data = 8, .shard = 4}) == 2);
}

TEST_CASE("a pipe has a second group for gradients, and one of its ends", "[comm]") {
  run_ranks(6, [](Communicator& world) {
    Mesh mesh = Mesh::over(world, {.pipe = 3, .data = 2});
    RankStream rank(world);
    const int stage = mesh.coordinate(Axis::kPipe);
    require(mesh.pipe_gradients() != &mesh.group(Axis::kPipe), "one group for both");
    const auto sum_over = [&](Communicator& group) {
      Tensor t = Tensor::empty({1}, DType::kI32, rank.stream);
      *t.data<int32_t>() = 1 << world.rank();
      group.all_reduce(t, ReduceOp::kSum, rank.stream);
      return *t.data<int32_t>();
    };
    const int own = 1 << mesh.coordinate(Axis::kData);
    require(sum_over(*mesh.pipe_gradients()) == (own | own << 2 | own << 4), "other stages");
    require((mesh.pipe_ends() != nullptr) == (stage != 1), "stage {}: ends", stage);
    if (stage != 1) require(sum_over(*mesh.pipe_ends()) == (own | own << 4), "other ends");
    Mesh meta = Mesh::meta(world.rank(), {.pipe = 3, .data = 2});
    require(meta.pipe_gradients()->rank() == stage && meta.pipe_gradients()->size() == 3,
            "a group of nobody: rank {}", meta.pipe_gradients()->rank());
    require((meta.pipe_ends() != nullptr) == (stage != 1), "stage {}: ends of nobody", stage);
  });
  run_ranks(2, [](Communicator& world) {
    Mesh mesh = Mesh::over(world, {.data = 2});
    require(mesh.pipe_gradients() == nullptr && mesh.pipe_ends() == nullptr, "one stage has ends");
  });
}

TEST_CASE("a decorated mesh counts what passes through a world that it shares", "[comm]") {
  std::latch all_counted(2);
  run_ranks(2, [&](Communicator& world) {
    CommVolume volume;
    Mesh mesh = Mesh::over(
        world, {.data = 2}, [&](Axis axis, Communicator& inner) -> std::unique_ptr<Communicator> {
          if (axis != Axis::kData) return nullptr;
          return std::make_unique<TracedComm>(inner, "data", TracedComm::Sinks{&volume, nullptr});
        });
    mesh.group(Axis::kData).barrier();
    world.barrier();
    mesh.group(Axis::kTensor).barrier();
    require(volume.totals().at("data").at("barrier").calls == 1, "the group's call is not counted");
    all_counted.arrive_and_wait();  // nobody is inside a barrier any more
    mesh.abort();
    ds::test::comm_error_of(std::chrono::seconds(10), [&] { world.barrier(); });
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
  Mesh mesh = Mesh::meta(5, sizes, [&](Axis axis, Communicator& inner) {
    return std::make_unique<TracedComm>(inner, std::string(to_string(axis)),
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
