// How a flat tensor is cut into one slice per rank (pure): rank r owns [bounds[r], bounds[r + 1]).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ds::detail {

std::vector<int64_t> equal_bounds(int size, int64_t slice);
// For any numel; starts are multiples of 64 elements, a cache line of the smallest dtype, so that
// no two ranks write the same line.
std::vector<int64_t> aligned_bounds(int size, int64_t numel);

}  // namespace ds::detail
