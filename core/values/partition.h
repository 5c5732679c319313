// Cutting a row of items into contiguous parts (pure): by count, or by weight. A cut is its part +
// 1 boundaries, from 0 to the number of items; part p holds the items boundaries[p] .. boundaries[p
// + 1].
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ds {

// The first num_items % num_parts parts are one larger; with fewer items than parts the last ones
// are empty. Throws InternalError for negative items or less than one part.
std::vector<int64_t> partition_uniform(int64_t num_items, int num_parts);

// The cut whose largest and smallest part sums differ least, found by dynamic programming over
// (items, parts); among equals the latest boundary wins. Not more items than parts: as
// partition_uniform. O(items^2 * parts) time, O(items * parts) memory.
std::vector<int64_t> partition_balanced(std::span<const double> weights, int num_parts);

// Inclusive sums: result[i] = weights[0] + ... + weights[i].
std::vector<double> prefix_sums(std::span<const double> weights);

// Piece `index` of `numel` elements cut into `count` pieces of ceil(numel / count): the last ones
// are shorter or empty. Offset never exceeds numel.
struct PartRange {
  int64_t offset = 0;
  int64_t numel = 0;
};
PartRange ceil_piece(int64_t numel, int count, int index);

}  // namespace ds
