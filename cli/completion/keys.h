// Keys of the configuration as shells propose them: behind a configuration's name, as key=value.
#pragma once

#include <string>
#include <vector>

namespace ds {

struct CompletedKey {
  std::string path;                 // "zero_optimization.stage"
  std::vector<std::string> values;  // all that it can be, where they are words; else empty
};

// Every key that has one name and is current, sorted by path.
std::vector<CompletedKey> completed_keys();

}  // namespace ds
