// The variables of a process as plain values, so that what reads them can be tested without one.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

using Environment = std::map<std::string, std::string, std::less<>>;

// Entries are "NAME=value"; the last one of a name counts.
inline Environment as_environment(const std::vector<std::string>& entries) {
  Environment out;
  for (const std::string& entry : entries) {
    const size_t equals = std::min(entry.find('='), entry.size());
    out[entry.substr(0, equals)] = entry.substr(std::min(equals + 1, entry.size()));
  }
  return out;
}

// Empty where the name is not set.
inline std::string value_in(const Environment& environment, std::string_view name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

}  // namespace ds
