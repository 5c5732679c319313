// Parallel: with whom a rank shares the work of a model. It is made once of the mesh, and is the
// same in all passes.
#pragma once

namespace ds {

class Communicator;
class Stream;

struct Parallel {
  // Ranks that have the other parts of the same sequences; null: rows are those of whole sequences.
  Communicator* sequence = nullptr;
  // How attention sees the others' rows: those of them that heads are exchanged with
  // (model/exchange/sequence.h), and those round which keys and values go (ring.h); null: nobody.
  Communicator* ulysses = nullptr;
  Communicator* ring = nullptr;
  // Keys and values travel on this while the model computes; null: on its stream, in turn.
  Stream* ring_messages = nullptr;
  // Ranks that have the other parts of the same layers (Megatron-LM, arXiv 1909.08053); null:
  // layers are whole.
  Communicator* tensor = nullptr;
  // Each of these ranks has some rows of what lies between such layers: as many, those of the first
  // rank first (Korthikanti et al., arXiv 2205.05198). Otherwise each has all.
  bool shares_rows = false;
  // The group that has the rows between layers in parts; null: none has.
  Communicator* row_group() const { return shares_rows ? tensor : nullptr; }
};

// A rank that has the model and its samples for itself.
inline constexpr Parallel kUnshared{};

}  // namespace ds
