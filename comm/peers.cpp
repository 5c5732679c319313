#include "comm/peers.h"

#include "comm/meta_comm.h"

namespace ds {
namespace {

Mesh::Decorate counted(const TracedComm::Sinks& sinks) {
  return [sinks](Axis axis, Communicator& group) {
    return std::make_unique<TracedComm>(group, std::string(to_string(axis)), sinks);
  };
}

}  // namespace

Connections::Connections(std::unique_ptr<Communicator> host, Mesh mesh)
    : host_group_(std::move(host)), host_(*host_group_), mesh_(std::move(mesh)) {}

Connections Connections::over(Communicator& world, const MeshSizes& sizes,
                              const TracedComm::Sinks& sinks) {
  return over(world, world, sizes, sinks);
}

Connections Connections::over(Communicator& world, Communicator& tensors, const MeshSizes& sizes,
                              const TracedComm::Sinks& sinks) {
  DS_CHECK(world.rank() == tensors.rank() && world.size() == tensors.size(),
           "connections: rank {} of {} on the host, rank {} of {} for tensors", world.rank(),
           world.size(), tensors.rank(), tensors.size());
  return {std::make_unique<TracedComm>(world, "host", sinks),
          Mesh::over(tensors, sizes, counted(sinks))};
}

Connections Connections::meta(int rank, const MeshSizes& sizes, const TracedComm::Sinks& sinks,
                              int ranks_of_host) {
  const MeshLayout layout(sizes);
  auto nobody = std::make_unique<MetaComm>(rank, layout.world_size());
  const auto shared = [&](Axis axis) {
    TracedComm::Sinks of_axis = sinks;
    if (ranks_of_host > 0) of_axis.network_share = network_share(layout, rank, axis, ranks_of_host);
    return of_axis;
  };
  const auto decorate = [&](Axis axis, Communicator& group) {
    return std::make_unique<TracedComm>(group, std::string(to_string(axis)), shared(axis));
  };
  return {std::make_unique<TracedComm>(std::move(nobody), "host", shared(Axis::kWorld)),
          Mesh::meta(rank, sizes, decorate)};
}

}  // namespace ds
