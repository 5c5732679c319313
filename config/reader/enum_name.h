// The spelling of an enumerator in files.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace ds {

// One spelling of an enumerator. Several spellings may share a value; the first is the canonical
// one. Enums that appear in the configuration declare, beside the enum:
//   std::span<const EnumName> names_of(TheEnum);
struct EnumName {
  std::string_view name;
  int value;
};

// The canonical one; empty for a value that has none.
inline std::string_view name_in(std::span<const EnumName> names, int value) {
  const auto found = std::ranges::find(names, value, &EnumName::value);
  return found == names.end() ? std::string_view() : found->name;
}

template <class Enum>
std::string_view enum_name(Enum value) {
  return name_in(names_of(value), static_cast<int>(value));
}

}  // namespace ds
