// Peers: the two ends that a rank has towards the others, never one for both. What ranks talk about
// (votes, files, figures of a step) goes over the host end; parameters, gradients and optimizer
// state go over the groups of the mesh, whose device may not be able to read what lies on a stack.
#pragma once

#include <memory>

#include "comm/contract/host_exchange.h"
#include "comm/mesh.h"
#include "comm/traced_comm.h"

namespace ds {

struct Peers {
  HostExchange& host;
  Mesh& mesh;

  // Ranks with the same weights, that see other tokens: of other samples, or of the same ones.
  Communicator& tokens() const { return mesh.group(mesh.layout().token_axis()); }
  // Those with whom the sums of a step are made.
  Communicator& sums() const { return mesh.group(mesh.layout().sums_axis()); }
};

// Connections: both ends over one communicator of all ranks, each counted under a name of its own:
// "host", and the axes of the mesh. Where the transport carries the tensors of the device, as on
// the CPU, a second one would cost another segment of staging buffers, and a rank that votes while
// another reduces would be waited for until the deadline; over one both are told at once where the
// other is.
class Connections {
 public:
  // `world` must outlive this. Collective over it.
  static Connections over(Communicator& world, const MeshSizes& sizes,
                          const TracedComm::Sinks& sinks = {});
  // This is for tensors that another transport carries: `tensors` has the same ranks as `world`,
  // and must outlive this, too.
  static Connections over(Communicator& world, Communicator& tensors, const MeshSizes& sizes,
                          const TracedComm::Sinks& sinks = {});
  // What rank `rank` would have, made of groups of nobody. ranks_of_host: of each; 0: all are on
  // one.
  static Connections meta(int rank, const MeshSizes& sizes, const TracedComm::Sinks& sinks = {},
                          int ranks_of_host = 0);

  Peers peers() { return {host_, mesh_}; }

 private:
  Connections(std::unique_ptr<Communicator> host, Mesh mesh);

  const std::unique_ptr<Communicator> host_group_;
  HostExchange host_;
  Mesh mesh_;
};

}  // namespace ds
