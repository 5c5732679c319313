#include "comm/mesh.h"

#include "comm/meta_comm.h"
#include "core/index.h"

namespace ds {
namespace {

constexpr std::array kAllAxes{Axis::kPipe,   Axis::kData,   Axis::kSequence,
                              Axis::kTensor, Axis::kExpert, Axis::kExpertData};

}  // namespace

Mesh Mesh::over(Communicator& world, const MeshSizes& sizes, const Decorate& decorate) {
  Mesh mesh(world.rank(), sizes);
  DS_CHECK(mesh.layout_.world_size() == world.size(),
           "mesh: the axis sizes multiply to {} ranks, the world has {}", mesh.layout_.world_size(),
           world.size());
  for (const Axis axis : kAllAxes) {
    // The lowest rank of a group names it.
    const int color = mesh.layout_.peers(mesh.rank_, axis).front();
    auto group = world.split(color, mesh.coordinate(axis));
    nth(mesh.groups_, axis) = decorate ? decorate(axis, std::move(group)) : std::move(group);
  }
  return mesh;
}

Mesh Mesh::meta(int rank, const MeshSizes& sizes, const Decorate& decorate) {
  Mesh mesh(rank, sizes);
  DS_CHECK(rank >= 0 && rank < mesh.layout_.world_size(), "mesh: rank {} of {}", rank,
           mesh.layout_.world_size());
  for (const Axis axis : kAllAxes) {
    std::unique_ptr<Communicator> group =
        std::make_unique<MetaComm>(mesh.coordinate(axis), mesh.size(axis));
    nth(mesh.groups_, axis) = decorate ? decorate(axis, std::move(group)) : std::move(group);
  }
  return mesh;
}

void Mesh::abort() noexcept {
  for (const auto& group : groups_) {
    if (group) group->abort();
  }
}

}  // namespace ds
