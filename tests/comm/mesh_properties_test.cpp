// The mesh over many sizes: that axes are independent, that groups are found from both ends, and
// what sizes are refused.
#include <map>
#include <set>
#include <vector>

#include "comm/mesh.h"
#include "comm/mesh_layout.h"
#include "comm/traced_comm.h"
#include "tests/support/catch.h"

namespace ds {
namespace {

std::vector<MeshSizes> many_sizes() {
  std::vector<MeshSizes> sizes;
  for (const int pipe : {1, 3}) {
    for (const int data : {1, 4, 6}) {
      for (const int sequence : {1, 2}) {
        for (const int tensor : {1, 2}) {
          for (const int expert : {1, 2, 3}) {
            if (data % expert != 0) continue;
            for (const int shard : {1, 2}) {
              if (data % shard != 0) continue;
              for (const ExpertOrder order : {ExpertOrder::kExpertFirst, ExpertOrder::kDataFirst}) {
                sizes.push_back({.pipe = pipe,
                                 .data = data,
                                 .sequence = sequence,
                                 .tensor = tensor,
                                 .expert = expert,
                                 .shard = shard,
                                 .ring = shard == 1 ? 1 : sequence,
                                 .key_replicas = shard == 1 ? 1 : tensor,
                                 .order = order});
              }
            }
          }
        }
      }
    }
  }
  return sizes;
}

TEST_CASE("a rank is found from its coordinates, on every axis of every mesh", "[comm]") {
  for (const MeshSizes& sizes : many_sizes()) {
    const MeshLayout mesh(sizes);
    CAPTURE(sizes.pipe, sizes.data, sizes.sequence, sizes.tensor, sizes.expert);
    std::set<std::vector<int>> places;
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      std::vector<int> place;
      for (const Axis axis : {Axis::kPipe, Axis::kData, Axis::kSequence, Axis::kTensor}) {
        place.push_back(mesh.coordinate(rank, axis));
      }
      places.insert(place);
      // Pipe is slowest and tensor fastest.
      REQUIRE(((place[0] * sizes.data + place[1]) * sizes.sequence + place[2]) * sizes.tensor +
                  place[3] ==
              rank);
      for (const Axis axis : kAllAxes) {
        REQUIRE(mesh.neighbour(rank, axis, mesh.coordinate(rank, axis)) == rank);
        REQUIRE(mesh.coordinate(rank, axis) < mesh.size(axis));
      }
    }
    CHECK(places.size() == static_cast<size_t>(mesh.world_size()));
    CHECK(mesh.size(Axis::kExpert) * mesh.size(Axis::kExpertData) == sizes.data);
    CHECK(mesh.size(Axis::kShard) * mesh.size(Axis::kReplica) == sizes.data);
  }
}

// Expert with expert-data, and shard with replica.
TEST_CASE("two axes cut the data group in two ways", "[comm]") {
  for (const MeshSizes& sizes : many_sizes()) {
    const MeshLayout mesh(sizes);
    for (int rank = 0; rank < mesh.world_size(); ++rank) {
      const std::vector<int> data = mesh.peers(rank, Axis::kData);
      for (const auto& [part, copies] :
           {std::pair{Axis::kExpert, Axis::kExpertData}, std::pair{Axis::kShard, Axis::kReplica}}) {
        std::set<int> covered;
        for (const int copy : mesh.peers(rank, copies)) {
          // A copy has the same part; its group of parts is disjoint from ours unless it is ours.
          REQUIRE(mesh.coordinate(copy, part) == mesh.coordinate(rank, part));
          for (const int peer : mesh.peers(copy, part)) REQUIRE(covered.insert(peer).second);
        }
        REQUIRE(covered == std::set<int>(data.begin(), data.end()));
      }
    }
  }
}

TEST_CASE("ranks that share out among themselves are neighbours in data", "[comm]") {
  const MeshLayout mesh({.data = 6, .tensor = 2, .shard = 3});
  CHECK(mesh.peers(0, Axis::kShard) == std::vector<int>{0, 2, 4});
  CHECK(mesh.peers(7, Axis::kShard) == std::vector<int>{7, 9, 11});
  CHECK(mesh.peers(2, Axis::kReplica) == std::vector<int>{2, 8});
}

TEST_CASE("neighbours in data are different experts, or copies of one, as the order says",
          "[comm]") {
  const MeshLayout experts_first({.data = 6, .expert = 3, .order = ExpertOrder::kExpertFirst});
  CHECK(experts_first.peers(0, Axis::kExpert) == std::vector<int>{0, 1, 2});
  CHECK(experts_first.peers(0, Axis::kExpertData) == std::vector<int>{0, 3});
  const MeshLayout copies_first({.data = 6, .expert = 3, .order = ExpertOrder::kDataFirst});
  CHECK(copies_first.peers(0, Axis::kExpertData) == std::vector<int>{0, 1});
  CHECK(copies_first.peers(0, Axis::kExpert) == std::vector<int>{0, 2, 4});
}

TEST_CASE("what pipe, sequence and tensor leave of a world is data", "[comm]") {
  const MeshSizes sizes = mesh_sizes(24, {.pipe = 2, .data = 99, .sequence = 3, .tensor = 2});
  CHECK(sizes.data == 2);  // what was asked for is not looked at
  CHECK(MeshLayout(sizes).world_size() == 24);
  CHECK(mesh_sizes(1, {}).data == 1);
  struct Case {
    int world;
    MeshSizes wanted;
    const char* message;
  };
  const Case cases[] = {
      {6, {.tensor = 4}, "6 ranks are not a multiple of pipe 1 * sequence 1 * tensor 4"},
      {0, {}, "0 ranks are not a multiple"},
      {-4, {.tensor = 2}, "-4 ranks are not a multiple"},
      {4, {.pipe = 0}, "an axis has size 0, expected 1 or more"},
      {4, {.tensor = -2}, "an axis has size -2"},
      {4, {.expert = 3}, "expert size 3 does not divide the data size 4"},
      {4, {.expert = 0}, "expert size 0 does not divide"},
      {4, {.shard = 3}, "shard size 3 does not divide the data size 4"},
      {4, {.pipe = 1 << 13, .tensor = 1 << 13}, "more than 16777216 ranks"}};
  for (const Case& one : cases) {
    CAPTURE(one.message);
    CHECK_THROWS_AS(mesh_sizes(one.world, one.wanted), ConfigError);
    CHECK_THROWS_WITH(mesh_sizes(one.world, one.wanted), Catch::Contains(one.message));
  }
  const MeshLayout mesh({.data = 2});
  CHECK_THROWS_WITH(mesh.coordinate(-1, Axis::kData), Catch::Contains("rank -1 is outside 0..1"));
  CHECK_THROWS_WITH(mesh.neighbour(0, Axis::kTensor, 1),
                    Catch::Contains("tensor 1 is outside 0..0"));
}

TEST_CASE("a mesh of nobody has every group of every rank", "[comm]") {
  const MeshSizes sizes{.pipe = 2, .data = 4, .tensor = 2, .expert = 2};
  for (int rank = 0; rank < 16; ++rank) {
    int decorated = 0;
    Mesh mesh = Mesh::meta(rank, sizes, [&](Axis, Communicator& inner) {
      ++decorated;
      return std::make_unique<TracedComm>(inner, "any", TracedComm::Sinks{});
    });
    CHECK(decorated == kAllAxes.size() + 2);  // gradients and ends of the pipe
    for (const Axis axis : kAllAxes) {
      CHECK(mesh.group(axis).rank() == mesh.coordinate(axis));
      CHECK(mesh.group(axis).size() == mesh.size(axis));
    }
    CHECK_NOTHROW(mesh.abort());
  }
  CHECK_THROWS_WITH(Mesh::meta(16, sizes), Catch::Contains("rank 16 of 16"));
  CHECK_THROWS_WITH(Mesh::meta(-1, sizes), Catch::Contains("rank -1 of 16"));
}

}  // namespace
}  // namespace ds
