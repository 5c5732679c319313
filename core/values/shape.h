// Shape of a tensor: up to six extents, row-major, no strides.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "core/values/index.h"

namespace ds {

class Shape {
 public:
  static constexpr int kMaxRank = 6;

  Shape() = default;
  Shape(std::initializer_list<int64_t> extents);
  explicit Shape(std::span<const int64_t> extents);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const;  // negative counts from the back; throws when out of range
  int64_t numel() const;               // 1 for rank 0; throws on overflow
  std::span<const int64_t> extents() const { return {extents_.data(), to_size(rank_)}; }
  bool operator==(const Shape& other) const;
  std::string to_string() const;  // "[4, 64, 768]"

 private:
  std::array<int64_t, kMaxRank> extents_{};
  int rank_ = 0;
};

inline auto format_as(const Shape& shape) { return shape.to_string(); }

}  // namespace ds
