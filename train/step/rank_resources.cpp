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

Parallel RankResources::parallel(bool shares_rows) const {
  return Parallel(peers.mesh, {.ring_messages = ring_messages, .shares_rows = shares_rows});
}

std::vector<Communicator*> RankResources::groups() const {
  std::vector<Communicator*> all{&peers.tokens()};
  Mesh& mesh = peers.mesh;
  const Parallel shared = parallel();
  for (Communicator* const others :
       {shared.group(Axis::kUlysses), shared.group(Axis::kRing), shared.group(Axis::kTensor),
        shared.group(Axis::kKeyReplica), shared.group(Axis::kPipe), mesh.pipe_gradients(),
        mesh.pipe_ends(), &peers.sums()}) {
    if (others != nullptr && std::ranges::find(all, others) == all.end()) all.push_back(others);
  }
  return all;
}

bool RankResources::talk_on_two_streams() const {
  if (communication == nullptr || communication == &stream) return false;
  const Parallel shared = parallel();
  return (shared.group(Axis::kUlysses) != nullptr || shared.group(Axis::kTensor) != nullptr) &&
         peers.tokens().size() > 1;
}

bool RankResources::are_recordable() const {
  if (talk_on_two_streams()) return false;
  return std::ranges::all_of(groups(), [](Communicator* group) { return group->is_recordable(); });
}

}  // namespace ds
