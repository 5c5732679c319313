// `dslaunch elastic train.json`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

struct ElasticVerbOptions {
  std::string config;
  std::vector<std::string> overrides;
  int64_t world_size = 0;  // 0: none in particular
  int64_t nodes = 4;
  int64_t devices_per_node = 1;
  bool json = false;
};

void describe_elastic(VerbApp& app, ElasticVerbOptions& values);

}  // namespace ds
