#include "train/step/rank_resources.h"

#include <algorithm>

namespace ds {

void RankResources::require_known_mesh() const {
  if (peers.mesh.size(Axis::kShard) == 1) return;
  if (peers.mesh.size(Axis::kSequence) > 1) {
    throw Unsupported(
        "engine: neighbours (MiCS, hpZ, qgZ) are cut out of the data axis, and with sequence "
        "parallelism weights are shared out over data and sequence together");
  }
  if (peers.mesh.size(Axis::kPipe) > 1) {
    throw Unsupported(
        "engine: neighbours (MiCS, hpZ, qgZ) share out weights at stage 3, and stages of a "
        "pipeline have theirs whole");
  }
}

namespace {

Communicator* others_along(Mesh& mesh, Axis axis) {
  return mesh.size(axis) > 1 ? &mesh.group(axis) : nullptr;
}

}  // namespace

Communicator* RankResources::sequence() const { return others_along(peers.mesh, Axis::kSequence); }

Communicator* RankResources::ulysses() const {
  return peers.mesh.size(Axis::kRing) == 1 ? sequence() : others_along(peers.mesh, Axis::kUlysses);
}

Communicator* RankResources::ring() const {
  return peers.mesh.size(Axis::kUlysses) == 1 ? sequence() : others_along(peers.mesh, Axis::kRing);
}

Communicator* RankResources::tensor() const { return others_along(peers.mesh, Axis::kTensor); }

Communicator* RankResources::pipe() const { return others_along(peers.mesh, Axis::kPipe); }

Parallel RankResources::parallel(bool shares_rows) const {
  return {.sequence = sequence(),
          .ulysses = ulysses(),
          .ring = ring(),
          .ring_messages = ring_messages,
          .tensor = tensor(),
          .shares_rows = shares_rows};
}

std::vector<Communicator*> RankResources::groups() const {
  std::vector<Communicator*> all{&peers.tokens()};
  Mesh& mesh = peers.mesh;
  Communicator* const same_keys = others_along(mesh, Axis::kKeyReplica);
  for (Communicator* const others : {ulysses(), ring(), tensor(), same_keys, pipe(),
                                     mesh.pipe_gradients(), mesh.pipe_ends(), &peers.sums()}) {
    if (others != nullptr && std::ranges::find(all, others) == all.end()) all.push_back(others);
  }
  return all;
}

bool RankResources::talk_on_two_streams() const {
  if (communication == nullptr || communication == &stream) return false;
  return (ulysses() != nullptr || tensor() != nullptr) && peers.tokens().size() > 1;
}

bool RankResources::are_recordable() const {
  if (talk_on_two_streams()) return false;
  return std::ranges::all_of(groups(), [](Communicator* group) { return group->is_recordable(); });
}

}  // namespace ds
