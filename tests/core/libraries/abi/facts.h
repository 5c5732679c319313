// What a header of a C library says, as numbers: by these a header of ours is compared with the
// library's own, whose names it has, so that no source can include both.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace ds::abi {

using Facts = std::vector<std::pair<std::string, long long>>;

// A function as digits: the bytes of what it returns and of each argument.
template <class T>
constexpr long long size_of = static_cast<long long>(sizeof(T));
template <>
inline constexpr long long size_of<void> = 0;
template <class Result, class... Arguments>
constexpr long long shape_of(Result (*)(Arguments...)) {
  long long digits = 10 + size_of<Result>;
  ((digits = 100 * digits + size_of<Arguments>), ...);
  return digits;
}

Facts nvml_of_ours();
Facts nvml_of_theirs();
Facts cufile_of_ours();
Facts cufile_of_theirs();

}  // namespace ds::abi

// Lines of a list of facts.
#define DS_SIZE(type) {"sizeof " #type, static_cast<long long>(sizeof(type))},
#define DS_PLACE(type, member) {#type "." #member, static_cast<long long>(offsetof(type, member))},
#define DS_VALUE(name) {#name, static_cast<long long>(name)},
#define DS_FUNCTION(name) {#name, ds::abi::shape_of(&name)},
#define DS_OPTIONAL(name) DS_FUNCTION(name)
