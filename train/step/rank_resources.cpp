#include "train/step/rank_resources.h"

#include <algorithm>

namespace ds {

void RankResources::require_known_mesh() const {
  for (const Axis axis : {Axis::kPipe, Axis::kTensor}) {
    if (peers.mesh.size(axis) == 1) continue;
    throw Unsupported(
        fmt::format("engine: {} ranks along the {} axis, and it trains over data and sequences",
                    peers.mesh.size(axis), to_string(axis)));
  }
  if (peers.mesh.size(Axis::kSequence) > 1 && peers.mesh.size(Axis::kShard) > 1) {
    throw Unsupported(
        "engine: neighbours (MiCS, hpZ, qgZ) are cut out of the data axis, and with sequence "
        "parallelism weights are shared out over data and sequence together");
  }
}

Communicator* RankResources::sequence() const {
  return peers.mesh.size(Axis::kSequence) > 1 ? &peers.mesh.group(Axis::kSequence) : nullptr;
}

std::vector<Communicator*> RankResources::groups() const {
  std::vector<Communicator*> all{&peers.tokens()};
  if (Communicator* const others = sequence(); others != nullptr) all.push_back(others);
  return all;
}

bool RankResources::are_recordable() const {
  return std::ranges::all_of(groups(), [](Communicator* group) { return group->is_recordable(); });
}

}  // namespace ds
