// What sequence parallelism asks of a model and its sequences (pure): every rank of a group has as
// many tokens of each sequence, and in attention as many heads, or two pieces of each sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ds {

struct EnumName;
struct ModelDimensions;

// How ranks that share sequences make attention: they trade parts of all heads for whole sequences
// of some (DeepSpeed-Ulysses), or keys and values go round (ring attention, whose ranks have a
// piece from the front and one from the back of each sequence, so that all see as much).
enum class SequenceSplit : uint8_t { kUlysses, kRing };
std::span<const EnumName> names_of(SequenceSplit);

// Who shares sequences.
struct SequenceSharing {
  int64_t ranks = 1;
  SequenceSplit split = SequenceSplit::kUlysses;
  bool is_ring() const { return ranks > 1 && split == SequenceSplit::kRing; }
};
// Why these cannot share sequences of `length` tokens of such a model; empty: they can.
std::string sequence_conflict(const ModelDimensions& model, int64_t length,
                              const SequenceSharing& sharing);

}  // namespace ds
