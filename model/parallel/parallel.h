// Parallel: with whom a rank shares the work of a model. It is made once of the mesh, and is the
// same in all passes.
#pragma once

#include <array>

#include "comm/mesh_layout.h"

namespace ds {

class Communicator;
class Mesh;
class Stream;

struct ParallelOptions {
  // Keys and values travel round a ring on this while the model computes; null: on the stream that
  // computes, in turn.
  Stream* ring_messages = nullptr;
  // Each of the ranks along kTensor has some rows of what lies between layers: as many, those of
  // the first rank first (Korthikanti et al., arXiv 2205.05198). Otherwise each has all.
  bool shares_rows = false;
};

class Parallel {
 public:
  // A rank that has the model and its samples for itself.
  constexpr Parallel() = default;
  // The mesh outlives it.
  explicit Parallel(Mesh& mesh, const ParallelOptions& options = {});

  // The ranks with which this one shares along an axis; null: with nobody. kSequence: those that
  // have the other parts of the same sequences. kUlysses: those of them that heads are exchanged
  // with (model/exchange/sequence.h), and kRing: those round which keys and values go (ring.h); all
  // of them if there is one sort only. kTensor: those that have the other parts of the same layers
  // (Megatron-LM, arXiv 1909.08053). kPipe: those that have other layers.
  Communicator* group(Axis axis) const { return groups_[static_cast<size_t>(axis)]; }
  // The group that has the rows between layers in parts; null: none has.
  Communicator* row_group() const { return options_.shares_rows ? group(Axis::kTensor) : nullptr; }
  Stream* ring_messages() const { return options_.ring_messages; }

 private:
  std::array<Communicator*, kAllAxes.size()> groups_{};
  ParallelOptions options_{};
};

inline constexpr Parallel kUnshared{};

}  // namespace ds
