// Cutting a row of items into contiguous parts.
#include "core/values/partition.h"

#include <algorithm>
#include <limits>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

namespace {

// Best known cut of the first i items into j parts.
struct State {
  double largest = std::numeric_limits<double>::infinity();
  double smallest = std::numeric_limits<double>::infinity();
  double cost = std::numeric_limits<double>::infinity();
  int64_t boundary = 0;  // where the last part begins
};

}  // namespace

std::vector<int64_t> partition_uniform(int64_t num_items, int num_parts) {
  DS_CHECK(num_items >= 0 && num_parts >= 1, "partition: {} items in {} parts", num_items,
           num_parts);
  const int64_t size = num_items / num_parts, larger = num_items % num_parts;
  std::vector<int64_t> bounds{0};
  for (int p = 0; p < num_parts; ++p) bounds.push_back(bounds.back() + size + (p < larger ? 1 : 0));
  return bounds;
}

std::vector<int64_t> partition_balanced(std::span<const double> weights, int num_parts) {
  DS_CHECK(num_parts >= 1, "partition: {} parts, expected 1 or more", num_parts);
  const size_t n = weights.size(), parts = to_size(num_parts);
  if (n <= parts) return partition_uniform(static_cast<int64_t>(n), num_parts);

  std::vector<double> sums{0};
  for (const double weight : weights) sums.push_back(sums.back() + weight);
  std::vector<State> states((n + 1) * (parts + 1));
  const auto at = [&](size_t items, size_t j) -> State& { return states[items * (parts + 1) + j]; };
  at(0, 0).largest = 0;
  at(0, 0).cost = 0;
  for (size_t i = 1; i <= n; ++i) {
    for (size_t j = 1; j <= std::min(i, parts); ++j) {
      State& best = at(i, j);
      for (size_t k = 0; k < i; ++k) {
        const double part = sums[i] - sums[k];
        const double largest = std::max(at(k, j - 1).largest, part);
        const double smallest = std::min(at(k, j - 1).smallest, part);
        if (largest - smallest <= best.cost) {
          best = {largest, smallest, largest - smallest, static_cast<int64_t>(k)};
        }
      }
    }
  }
  std::vector<int64_t> bounds(parts + 1);
  bounds[parts] = static_cast<int64_t>(n);
  for (size_t j = parts; j > 0; --j) bounds[j - 1] = at(to_size(bounds[j]), j).boundary;
  return bounds;
}

std::vector<double> prefix_sums(std::span<const double> weights) {
  std::vector<double> sums(weights.begin(), weights.end());
  for (size_t i = 1; i < sums.size(); ++i) sums[i] += sums[i - 1];
  return sums;
}

PartRange ceil_piece(int64_t numel, int count, int index) {
  DS_CHECK(numel >= 0 && count >= 1 && index >= 0 && index < count,
           "partition: piece {} of {} of {} elements", index, count, numel);
  const int64_t size = numel / count + (numel % count != 0 ? 1 : 0);
  const int64_t offset = std::min(size * index, numel);
  return {offset, std::min(size, numel - offset)};
}

}  // namespace ds
