#include "core/values/shape.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"

namespace ds {

Shape::Shape(std::initializer_list<int64_t> extents)
    : Shape(std::span<const int64_t>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const int64_t> extents) : rank_(narrow<int>(extents.size())) {
  DS_CHECK(extents.size() <= kMaxRank, "shape: rank {} exceeds {}", extents.size(), kMaxRank);
  for (size_t i = 0; i < extents.size(); ++i) {
    DS_CHECK(extents[i] >= 0, "shape: extent {} of axis {} is negative", extents[i], i);
    extents_[i] = extents[i];
  }
}

int64_t Shape::operator[](int axis) const {
  const int at = axis < 0 ? axis + rank_ : axis;
  DS_CHECK(at >= 0 && at < rank_, "shape: axis {} of a rank-{} shape", axis, rank_);
  return nth(extents_, at);
}

int64_t Shape::numel() const {
  int64_t product = 1;
  for (const int64_t extent : extents()) {
    DS_CHECK(!__builtin_mul_overflow(product, extent, &product), "shape: {} overflows int64",
             to_string());
  }
  return product;
}

bool Shape::operator==(const Shape& other) const {
  return std::ranges::equal(extents(), other.extents());
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(extents(), ", ")); }

}  // namespace ds
