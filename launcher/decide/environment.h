// The variables of a process as plain values, so that what reads them can be tested without one.
#pragma once

#include <functional>
#include <map>
#include <string>

namespace ds {

using Environment = std::map<std::string, std::string, std::less<>>;

}  // namespace ds
