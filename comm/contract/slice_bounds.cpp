#include "comm/contract/slice_bounds.h"

#include "core/values/index.h"

namespace ds::detail {

std::vector<int64_t> equal_bounds(int size, int64_t slice) {
  std::vector<int64_t> bounds(to_size(size) + 1);
  for (size_t r = 0; r < bounds.size(); ++r) bounds[r] = static_cast<int64_t>(r) * slice;
  return bounds;
}

std::vector<int64_t> aligned_bounds(int size, int64_t numel) {
  constexpr int64_t kUnit = 64;
  std::vector<int64_t> bounds(to_size(size) + 1);
  for (int r = 0; r < size; ++r) {
    nth(bounds, r) = (numel / size * r + numel % size * r / size) / kUnit * kUnit;
  }
  bounds.back() = numel;
  return bounds;
}

}  // namespace ds::detail
