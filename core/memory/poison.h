// Memory that is reserved but not live, made known to AddressSanitizer: reading it is then an error
// with a stack instead of a number from an earlier tensor. Without the sanitizer nothing happens.
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace ds {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kCanPoison = true;
inline void poison(const void* begin, size_t bytes) { __asan_poison_memory_region(begin, bytes); }
inline void unpoison(const void* begin, size_t bytes) {
  __asan_unpoison_memory_region(begin, bytes);
}
inline bool is_poisoned(const void* at) { return __asan_address_is_poisoned(at) != 0; }
#else
inline constexpr bool kCanPoison = false;
inline void poison(const void* /*begin*/, size_t /*bytes*/) {}
inline void unpoison(const void* /*begin*/, size_t /*bytes*/) {}
inline bool is_poisoned(const void* /*at*/) { return false; }
#endif

}  // namespace ds
