// What verbs are given beside their own options.
#pragma once

#include <string>
#include <vector>

namespace ds {

// What a verb takes from its environment, read once in main.cpp.
struct CommandContext {
  std::string own_program;               // path of dslaunch
  std::string rank_program;              // path of rankd
  std::vector<std::string> environment;  // "NAME=value"
  const char* visible_gpus = nullptr;    // CUDA_VISIBLE_DEVICES
  bool no_colour = false;
};

}  // namespace ds
