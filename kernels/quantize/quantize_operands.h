// What the halves of kernels/quantize get of their front functions: checked operands, and how
// groups are cut for their statistics. Pointers are of the stream's device.
#pragma once

#include <cstdint>

#include "core/device/tensor.h"
#include "kernels/quantize/quantize.h"

namespace ds::kernels::detail {

// Groups that are runs of numbers, each cut into parts of equal length but for the last one. Few
// enough parts for one block to join, and large enough to be worth one.
struct GroupParts {
  int64_t groups, size;
  int64_t part;      // numbers in one
  int64_t of_group;  // parts

  constexpr int64_t count() const { return groups * of_group; }
  constexpr int64_t group_of(int64_t index) const { return index / of_group; }
  constexpr int64_t begin(int64_t index) const {
    return group_of(index) * size + index % of_group * part;
  }
  constexpr int64_t end(int64_t index) const {
    const int64_t end_of_group = (group_of(index) + 1) * size, end = begin(index) + part;
    return end < end_of_group ? end : end_of_group;
  }
};
constexpr int64_t kLeastPart = 4096, kMostParts = 1024;
constexpr GroupParts parts_of(int64_t groups, int64_t size) {
  const int64_t part = (size + kMostParts * kLeastPart - 1) / (kMostParts * kLeastPart);
  const int64_t length = part < 1 ? kLeastPart : part * kLeastPart;
  return {groups, size, length, (size + length - 1) / length};
}

struct FakeOperands {
  const Tensor &x, &y;
  FakeQuant how;
  GroupParts parts;
  Range* ranges;           // of parts; of ternary and binary
  Magnitudes* magnitudes;  // these instead
  FakeScale* scales;       // of groups; of ternary and binary
  FakeMagnitude* levels;   // these instead
};

// Integer codes, and the scales of their groups.
struct CodesView {
  int8_t* q;
  float* scale;
  float* offset;  // null where the range is symmetric
  int bits;
  IntRange range;
  int64_t group_size;

  constexpr IntScale scale_of(int64_t group) const {
    return {scale[group], offset == nullptr ? 0.0F : offset[group]};
  }
  constexpr void set_scale(int64_t group, IntScale of_group) const {
    scale[group] = of_group.scale;
    if (offset != nullptr) offset[group] = of_group.offset;
  }
  constexpr int code(int64_t i) const {
    return bits == 4 ? signed_nibble(static_cast<uint8_t>(q[i / 2]), i % 2 == 0) : q[i];
  }
};

// The codes of several ranks for the same numbers.
struct RankCodes {
  CodesView first;
  int64_t ranks;
  int64_t bytes, groups;  // of one rank

  constexpr CodesView of(int64_t rank) const {
    CodesView codes = first;
    codes.q += rank * bytes;
    codes.scale += rank * groups;
    if (codes.offset != nullptr) codes.offset += rank * groups;
    return codes;
  }
};

// Weights.
struct LevelsView {
  uint8_t* q;
  float *scale, *min;
  GroupQuant how;

  constexpr GroupScale scale_of(int64_t group) const { return {scale[group], min[group]}; }
  constexpr void set_scale(int64_t group, GroupScale of_group) const {
    scale[group] = of_group.scale;
    min[group] = of_group.min;
  }
};

}  // namespace ds::kernels::detail
