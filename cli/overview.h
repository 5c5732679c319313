// What `dslaunch --help` prints: how to begin, and the list of verbs.
#pragma once

#include <string>

namespace ds {

std::string overview();

}  // namespace ds
