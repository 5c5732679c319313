#include "train/step/rank_resources.h"

#include <algorithm>

namespace ds {

void RankResources::require_known_mesh() const {
  if (peers.mesh.size(Axis::kPipe) > 1) {
    throw Unsupported(fmt::format(
        "engine: {} ranks along the pipe axis, and it trains over data, sequences and tensors",
        peers.mesh.size(Axis::kPipe)));
  }
  if (peers.mesh.size(Axis::kSequence) > 1 && peers.mesh.size(Axis::kShard) > 1) {
    throw Unsupported(
        "engine: neighbours (MiCS, hpZ, qgZ) are cut out of the data axis, and with sequence "
        "parallelism weights are shared out over data and sequence together");
  }
}

namespace {

Communicator* others_along(Mesh& mesh, Axis axis) {
  return mesh.size(axis) > 1 ? &mesh.group(axis) : nullptr;
}

}  // namespace

Communicator* RankResources::sequence() const { return others_along(peers.mesh, Axis::kSequence); }

Communicator* RankResources::tensor() const { return others_along(peers.mesh, Axis::kTensor); }

std::vector<Communicator*> RankResources::groups() const {
  std::vector<Communicator*> all{&peers.tokens()};
  Communicator* const same_keys = others_along(peers.mesh, Axis::kKeyReplica);
  for (Communicator* const others : {sequence(), tensor(), same_keys, &peers.sums()}) {
    if (others != nullptr && std::ranges::find(all, others) == all.end()) all.push_back(others);
  }
  return all;
}

bool RankResources::are_recordable() const {
  return std::ranges::all_of(groups(), [](Communicator* group) { return group->is_recordable(); });
}

}  // namespace ds
