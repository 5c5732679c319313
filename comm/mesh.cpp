#include "comm/mesh.h"

#include <map>
#include <numeric>

#include "comm/meta_comm.h"
#include "comm/solo_comm.h"
#include "core/values/index.h"

namespace ds {
namespace {

bool is_whole_world(const std::vector<int>& peers, int world_size) {
  std::vector<int> everybody(to_size(world_size));
  std::iota(everybody.begin(), everybody.end(), 0);
  return peers == everybody;
}

}  // namespace

Mesh::Group Mesh::finished(Axis axis, Group group, const Decorate& decorate) {
  if (group.own) group.bare = group.own.get();
  group.used = group.bare;
  if (decorate) group.decoration = decorate(axis, *group.used);
  if (group.decoration) group.used = group.decoration.get();
  return group;
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
    nth(mesh.groups_, axis) = finished(axis, std::move(group), decorate);
    known.emplace(peers, nth(mesh.groups_, axis).bare);
  }
  if (sizes.pipe > 1) mesh.split_pipe(world, decorate);
  return mesh;
}

void Mesh::split_pipe(Communicator& world, const Decorate& decorate) {
  const std::vector<int> stages = layout_.peers(rank_, Axis::kPipe);
  const int stage = coordinate(Axis::kPipe);
  Group gradients{.own = world.split(stages.front(), stage)};
  pipe_gradients_ = finished(Axis::kPipe, std::move(gradients), decorate);
  const bool is_end = rank_ == stages.front() || rank_ == stages.back();
  // Who is between them is in a group of its own, which nobody needs.
  Group ends{.own = world.split(is_end ? stages.front() : world.size() + rank_, stage)};
  if (is_end) pipe_ends_ = finished(Axis::kPipe, std::move(ends), decorate);
}

Mesh Mesh::meta(int rank, const MeshSizes& sizes, const Decorate& decorate) {
  Mesh mesh(rank, sizes);
  DS_CHECK(rank >= 0 && rank < mesh.layout_.world_size(), "mesh: rank {} of {}", rank,
           mesh.layout_.world_size());
  for (const Axis axis : kAllAxes) {
    Group group{.own = std::make_unique<MetaComm>(mesh.coordinate(axis), mesh.size(axis))};
    nth(mesh.groups_, axis) = finished(axis, std::move(group), decorate);
  }
  const int stage = mesh.coordinate(Axis::kPipe), stages = sizes.pipe;
  if (stages == 1) return mesh;
  Group gradients{.own = std::make_unique<MetaComm>(stage, stages)};
  mesh.pipe_gradients_ = finished(Axis::kPipe, std::move(gradients), decorate);
  if (stage > 0 && stage < stages - 1) return mesh;
  Group ends{.own = std::make_unique<MetaComm>(stage > 0 ? 1 : 0, 2)};
  mesh.pipe_ends_ = finished(Axis::kPipe, std::move(ends), decorate);
  return mesh;
}

template <class Use>
void Mesh::each(const Use& use) {
  for (const Group& group : groups_) {
    if (group.used != nullptr) use(*group.used);
  }
  for (const Group* const more : {&pipe_gradients_, &pipe_ends_}) {
    if (more->used != nullptr) use(*more->used);
  }
}

void Mesh::abort() noexcept {
  each([](Communicator& group) { group.abort(); });
}

void Mesh::check() {
  each([](Communicator& group) { group.check(); });
}

}  // namespace ds
