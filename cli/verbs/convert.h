// `dslaunch convert SRC DST`: checkpoints and weights as a folder that others read.
#pragma once

#include <optional>
#include <string>

namespace ds {

class VerbApp;

struct ConvertArgs {
  std::string source;
  std::string destination;
  std::string to = "hf";
  std::optional<std::string> tag;
  std::optional<std::string> config;  // a folder with config.json
  std::optional<std::string> base;    // of adapters: the folder of the model
  std::optional<std::string> name_map;
  std::string dtype = "fp32";
  bool json = false;
};

void describe_convert(VerbApp& app, ConvertArgs& values);

}  // namespace ds
