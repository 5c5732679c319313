// Numbers from one integer type to another, checked. Ranks, buckets, layers and byte counts are
// signed because differences of them are; containers count in size_t. A value that does not fit is
// a mistake of ours: InternalError.
#pragma once

#include <concepts>
#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace ds {

namespace detail {
[[noreturn]] void refuse_narrowing(long long value);
[[noreturn]] void refuse_index(size_t index, size_t size);
}  // namespace detail

template <std::integral To, std::integral From>
constexpr To narrow(From value) {
  if (!std::in_range<To>(value)) detail::refuse_narrowing(static_cast<long long>(value));
  return static_cast<To>(value);
}

// What indexes and measures containers; an enumerator counts by its value.
template <class From>
constexpr size_t to_size(From value) {
  if constexpr (std::is_enum_v<From>) {
    return narrow<size_t>(static_cast<std::underlying_type_t<From>>(value));
  } else {
    return narrow<size_t>(value);
  }
}

// Element `index` of an array, span, vector or string.
template <class Container, class Index>
constexpr decltype(auto) nth(Container&& items, Index index) {
  const size_t at = to_size(index);
  if (at >= std::size(items)) detail::refuse_index(at, std::size(items));
  return std::forward<Container>(items)[at];
}

}  // namespace ds
