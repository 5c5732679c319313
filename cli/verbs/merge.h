// `dslaunch merge SRC DST`: adapters and their model as one model.
#pragma once

#include <optional>
#include <string>

namespace ds {

class VerbApp;

struct MergeArgs {
  std::string source;
  std::string destination;
  std::optional<std::string> base;  // the folder of the model; none: what the adapters name
  std::string to = "hf";
  std::string dtype = "fp32";
  bool json = false;
};

void describe_merge(VerbApp& app, MergeArgs& values);

}  // namespace ds
