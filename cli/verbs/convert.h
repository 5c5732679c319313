// `dslaunch convert SRC DST`: weights of others as a folder that everybody reads.
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
  std::optional<std::string> name_map;
  std::string dtype = "fp32";
  bool json = false;
};

void describe_convert(VerbApp& app, ConvertArgs& values);

}  // namespace ds
