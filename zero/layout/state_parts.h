// (pure) How the slices of a rank are cut into the parts that its optimizer state is handed out in:
// the range of each slice that a state store has, in parts of at most so many elements.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "optim/optimizer.h"

namespace ds {

// Elements [begin, begin + numel) of this rank's slice of a bucket.
struct StatePart {
  int bucket = 0;
  int64_t begin = 0;
  int64_t numel = 0;
  bool operator==(const StatePart&) const = default;
};

// What a state store has of every slice: the shares [first, last) of it, 0 to 1.
struct StateShare {
  double first = 0;
  double last = 1;
};

// A slice of `slice_numel` elements is cut where its share ends, and within that every
// `part_numel` elements; both are rounded down to what slices are aligned to, parts to that at
// least. What is empty is no part. Parts are made longer where there would be more than
// kMostStateParts and one for each slice: a part takes no time of its own then, and the tables of
// all parts little memory.
inline constexpr int64_t kMostStateParts = 1 << 14;
std::vector<StatePart> state_parts(std::span<const int64_t> slice_numel, const StateShare& share,
                                   int64_t part_numel);

// The fields of a slice that lie in the part, with offsets from where it begins.
std::vector<ShardField> fields_within(std::span<const ShardField> fields, const StatePart& part);

// "0: 0+64 64+32; 1: 0+96"
std::string to_string(std::span<const StatePart> parts);

}  // namespace ds
