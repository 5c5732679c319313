// Whole numbers that are multiples of another one.
#pragma once

#include <concepts>
#include <type_traits>

namespace ds {

// How many units of `unit`, which is positive, have room for `value`, which is not negative.
template <std::integral T>
constexpr T divide_up(T value, std::type_identity_t<T> unit) {
  return static_cast<T>(value / unit + (value % unit == 0 ? 0 : 1));
}

// The smallest multiple of `unit` that is not below `value`.
template <std::integral T>
constexpr T round_up(T value, std::type_identity_t<T> unit) {
  return static_cast<T>(divide_up(value, unit) * unit);
}

}  // namespace ds
