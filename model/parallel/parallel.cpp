#include "model/parallel/parallel.h"

#include "comm/mesh.h"

namespace ds {

Parallel::Parallel(Mesh& mesh, const ParallelOptions& options) : options_(options) {
  for (const Axis axis : kAllAxes) {
    if (mesh.size(axis) > 1) groups_[static_cast<size_t>(axis)] = &mesh.group(axis);
  }
  // A sequence that is split in one way has one group, which the mesh calls by its first name.
  Communicator* const sequence = group(Axis::kSequence);
  const auto stands_for_all = [&](Axis axis, Axis other) {
    if (mesh.size(other) == 1) groups_[static_cast<size_t>(axis)] = sequence;
  };
  stands_for_all(Axis::kUlysses, Axis::kRing);
  stands_for_all(Axis::kRing, Axis::kUlysses);
}

}  // namespace ds
