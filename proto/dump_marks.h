// The lines between which a rank's log holds a dump of what it does; `dslaunch stack` looks for
// them.
#pragma once

#include <string_view>

namespace ds {

inline constexpr std::string_view kDumpBegins = "=== dump begins";
inline constexpr std::string_view kDumpEnds = "=== dump ends";

}  // namespace ds
