// `dslaunch elastic train.json`: what ds_elastic prints, and what losing nodes does to the batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ds {

enum class ElasticOutput { kText, kJson };

struct ElasticVerbOptions {
  std::string config;
  std::vector<std::string> overrides;
  int64_t world_size = 0;  // 0: none in particular
  int64_t nodes = 4;
  int64_t devices_per_node = 1;
  ElasticOutput output = ElasticOutput::kText;
};

// {"final_batch_size": .., "valid_gpus": [..], "micro_batch_size": ..} as ds_elastic has them, or the
// table of elastic_table(). Throws ElasticError, ConfigError, InputMissing.
std::string elastic_text(const ElasticVerbOptions& options);

// Prints it; returns 0.
int run_elastic(const ElasticVerbOptions& options);

}  // namespace ds
