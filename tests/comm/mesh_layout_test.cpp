// The mesh's groups, by golden file and by properties.
#include "comm/mesh_layout.h"

#include <set>

#include "core/status/error.h"
#include "tests/support/catch.h"
#include "tests/support/golden.h"

namespace ds {
namespace {

// Commands: world pipe sequence tensor expert (EF|DF) [shard]
std::string describe(const std::string& command) {
  int world = 0;
  MeshSizes sizes;
  char order[8] = {};
  if (std::sscanf(command.c_str(), "%d %d %d %d %d %7s %d", &world, &sizes.pipe, &sizes.sequence,
                  &sizes.tensor, &sizes.expert, order, &sizes.shard) < 6) {
    return "bad command";
  }
  sizes.order = std::string(order) == "DF" ? ExpertOrder::kDataFirst : ExpertOrder::kExpertFirst;
  try {
    const MeshLayout mesh(mesh_sizes(world, sizes));
    std::string text;
    for (const Axis axis : kAllAxes) {
      text += fmt::format("{}:", to_string(axis));
      for (const auto& group : mesh.groups(axis))
        text += fmt::format(" [{}]", fmt::join(group, " "));
      text += "\n";
    }
    return text;
  } catch (const Error& error) {
    return std::string("error: ") + error.what();
  }
}

TEST_CASE("groups of small meshes", "[comm]") { testing::run_golden("mesh_layout.txt", describe); }

TEST_CASE("along every axis the groups cover each rank once", "[comm]") {
  for (const ExpertOrder order : {ExpertOrder::kExpertFirst, ExpertOrder::kDataFirst}) {
    const MeshLayout mesh({.pipe = 2,
                           .data = 6,
                           .sequence = 2,
                           .tensor = 3,
                           .expert = 3,
                           .shard = 2,
                           .order = order});
    for (const Axis axis : kAllAxes) {
      std::multiset<int> seen;
      for (const auto& group : mesh.groups(axis)) {
        CHECK(group.size() == static_cast<size_t>(mesh.size(axis)));
        for (size_t at = 0; at < group.size(); ++at) {
          seen.insert(group[at]);
          CHECK(mesh.coordinate(group[at], axis) == static_cast<int>(at));
          CHECK(mesh.peers(group[at], axis) == group);
        }
      }
      CHECK(seen.size() == 72);
      CHECK(std::set<int>(seen.begin(), seen.end()).size() == 72);
    }
  }
}

TEST_CASE("a neighbour differs in its own axis only", "[comm]") {
  const MeshLayout mesh({.pipe = 2, .data = 4, .sequence = 2, .tensor = 2, .expert = 2});
  const int there = mesh.neighbour(5, Axis::kData, 3);
  CHECK(mesh.coordinate(there, Axis::kData) == 3);
  for (const Axis axis : {Axis::kPipe, Axis::kSequence, Axis::kTensor}) {
    CHECK(mesh.coordinate(there, axis) == mesh.coordinate(5, axis));
  }
  CHECK_THROWS_AS(mesh.neighbour(5, Axis::kData, 4), InternalError);
  CHECK_THROWS_AS(mesh.coordinate(32, Axis::kData), InternalError);
}

TEST_CASE("groups that leave a host share its network, and others need none", "[comm]") {
  // Ranks 0 to 7, of which 0 to 3 are on the first host: tensor neighbours are together.
  const MeshLayout mesh({.data = 4, .tensor = 2});
  CHECK(network_share(mesh, 5, Axis::kTensor, 4) == 0);
  CHECK(network_share(mesh, 5, Axis::kData, 4) == 0.5);  // ranks 1, 3, 5, 7: two are here
  CHECK(network_share(mesh, 5, Axis::kWorld, 4) == 1);
  CHECK(network_share(mesh, 5, Axis::kSequence, 4) == 0);  // alone
  CHECK(network_share(mesh, 5, Axis::kTensor, 1) == 1);
  CHECK(network_share(mesh, 5, Axis::kData, 8) == 0);
  CHECK_THROWS_AS(network_share(mesh, 5, Axis::kData, 0), InternalError);
}

TEST_CASE("neighbours in tensor have the same keys, where there are fewer of these", "[comm]") {
  const MeshLayout mesh({.data = 2, .tensor = 4, .key_replicas = 2});
  CHECK(mesh.size(Axis::kKeyReplica) == 2);
  CHECK(mesh.peers(5, Axis::kKeyReplica) == std::vector<int>{4, 5});
  CHECK(mesh.peers(6, Axis::kKeyReplica) == std::vector<int>{6, 7});
  CHECK(mesh.coordinate(7, Axis::kKeyReplica) == 1);
  CHECK(mesh.groups(Axis::kKeyReplica).size() == 4);
  CHECK_THROWS_WITH(MeshLayout({.tensor = 4, .key_replicas = 3}),
                    Catch::Contains("3 ranks with the same keys"));
}

TEST_CASE("neighbours in sequence exchange heads, and rings go through their places", "[comm]") {
  const MeshLayout mesh({.data = 2, .sequence = 6, .tensor = 2, .ring = 2});
  CHECK(mesh.size(Axis::kUlysses) == 3);
  CHECK(mesh.size(Axis::kRing) == 2);
  CHECK(mesh.peers(3, Axis::kUlysses) == std::vector<int>{1, 3, 5});
  CHECK(mesh.peers(3, Axis::kRing) == std::vector<int>{3, 9});
  CHECK(mesh.coordinate(9, Axis::kRing) == 1);
  CHECK(mesh.coordinate(9, Axis::kUlysses) == 1);
  CHECK_THROWS_WITH(MeshLayout({.sequence = 6, .ring = 4}),
                    Catch::Contains("ring size 4 does not divide the sequence size 6"));
}

}  // namespace
}  // namespace ds
