// What is wrong with something that a configuration names.
#pragma once

#include <string>

#include "core/status/error.h"

namespace ds {

struct InputDefect {
  ExitCode code = ExitCode::kConfig;  // what a run would end with
  std::string key;                    // of the configuration: "data.train"
  std::string what;
};

}  // namespace ds
