// What sequence parallelism asks of a model and its sequences (pure): every rank of a group has as
// many tokens of each sequence, and in attention as many heads, or two pieces of each sequence.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace ds {

struct EnumName;
struct ModelDimensions;

// How ranks that share sequences make attention: they exchange parts of all heads for whole
// sequences of some (DeepSpeed-Ulysses), or keys and values go round (ring attention, whose ranks
// have a piece from the front and one from the back of each sequence, so that all see as much).
// With rings of fewer ranks than share a sequence both are done (USP; Fang and Zhao, arXiv
// 2405.07719).
enum class SequenceSplit : uint8_t { kUlysses, kRing };
std::span<const EnumName> names_of(SequenceSplit);

// Who shares sequences.
struct SequenceSharing {
  int64_t ranks = 1;
  int64_t ring = 1;  // of them; divides ranks
  // Neighbours that exchange heads, around each place of the ring.
  int64_t trading() const { return ranks / ring; }
};
// Why rings of that size cannot be made of so many ranks; empty: they can.
std::string ring_size_conflict(const SequenceSharing& sharing);
// Why these, whose rings can be made, cannot share sequences of `length` tokens of such a model;
// empty: they can.
std::string sequence_conflict(const ModelDimensions& model, int64_t length,
                              const SequenceSharing& sharing);

}  // namespace ds
