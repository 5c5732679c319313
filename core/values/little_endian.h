// Numbers as file formats have them in bytes, the lowest byte first, at any alignment.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "core/status/error.h"

namespace ds {

static_assert(std::endian::native == std::endian::little);

// The number whose first byte is bytes[at]; InternalError where it does not lie inside.
template <class T>
T little_endian(std::span<const std::byte> bytes, size_t at) {
  static_assert(std::is_arithmetic_v<T>);
  DS_CHECK(at <= bytes.size() && sizeof(T) <= bytes.size() - at,
           "little_endian: {} bytes at {} of {}", sizeof(T), at, bytes.size());
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <class T>
void append_little_endian(std::string& out, T value) {
  static_assert(std::is_arithmetic_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

}  // namespace ds
