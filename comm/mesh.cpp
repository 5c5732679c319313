#include "comm/mesh.h"

#include <map>
#include <numeric>

#include "comm/meta_comm.h"
#include "comm/solo_comm.h"
#include "core/index.h"

namespace ds {
namespace {

bool is_whole_world(const std::vector<int>& peers, int world_size) {
  std::vector<int> everybody(to_size(world_size));
  std::iota(everybody.begin(), everybody.end(), 0);
  return peers == everybody;
}

}  // namespace

void Mesh::set(Axis axis, Group group, const Decorate& decorate) {
  if (group.own) group.bare = group.own.get();
  group.used = group.bare;
  if (decorate) group.decoration = decorate(axis, *group.used);
  if (group.decoration) group.used = group.decoration.get();
  nth(groups_, axis) = std::move(group);
}

Mesh Mesh::over(Communicator& world, const MeshSizes& sizes, const Decorate& decorate) {
  Mesh mesh(world.rank(), sizes);
  DS_CHECK(mesh.layout_.world_size() == world.size(),
           "mesh: the axis sizes multiply to {} ranks, the world has {}", mesh.layout_.world_size(),
           world.size());
  std::map<std::vector<int>, Communicator*> known;
  for (const Axis axis : kAllAxes) {
    const std::vector<int> peers = mesh.layout_.peers(mesh.rank_, axis);
    Group group;
    if (is_whole_world(peers, world.size())) {
      group.bare = &world;
    } else if (const auto same = known.find(peers); same != known.end()) {
      group.bare = same->second;
    } else if (peers.size() == 1) {
      group.own = std::make_unique<SoloComm>(world.memory());
    } else {
      // The lowest rank of a group names it.
      group.own = world.split(peers.front(), mesh.coordinate(axis));
    }
    mesh.set(axis, std::move(group), decorate);
    known.emplace(peers, nth(mesh.groups_, axis).bare);
  }
  return mesh;
}

Mesh Mesh::meta(int rank, const MeshSizes& sizes, const Decorate& decorate) {
  Mesh mesh(rank, sizes);
  DS_CHECK(rank >= 0 && rank < mesh.layout_.world_size(), "mesh: rank {} of {}", rank,
           mesh.layout_.world_size());
  for (const Axis axis : kAllAxes) {
    auto group = std::make_unique<MetaComm>(mesh.coordinate(axis), mesh.size(axis));
    mesh.set(axis,
             {.own = std::move(group), .decoration = nullptr, .bare = nullptr, .used = nullptr},
             decorate);
  }
  return mesh;
}

void Mesh::abort() noexcept {
  for (const Group& group : groups_) {
    if (group.used != nullptr) group.used->abort();
  }
}

void Mesh::check() {
  for (const Group& group : groups_) {
    if (group.used != nullptr) group.used->check();
  }
}

}  // namespace ds
