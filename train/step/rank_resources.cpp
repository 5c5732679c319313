#include "train/step/rank_resources.h"

namespace ds {

void RankResources::require_data_only() const {
  for (const Axis axis : {Axis::kPipe, Axis::kSequence, Axis::kTensor}) {
    if (peers.mesh.size(axis) == 1) continue;
    throw Unsupported(
        fmt::format("engine: {} ranks along the {} axis, and it trains over data alone",
                    peers.mesh.size(axis), to_string(axis)));
  }
}

}  // namespace ds
