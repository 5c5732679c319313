// The elasticity section (arithmetic: config/elastic_batch.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/reader/fields.h"

namespace ds {

struct ElasticityConfig {
  bool enabled = false;
  int64_t max_train_batch_size = 2000;
  std::vector<int64_t> micro_batch_sizes = {2, 4, 6};
  int64_t min_gpus = 1;
  int64_t max_gpus = 10000;
  int64_t min_time = 0;
  bool prefer_large_batch = true;
  double version = 0.2;
  bool ignore_non_elastic_batch_info = false;
  int64_t num_gpus_per_node = 1;
  int64_t model_parallel_size = 1;
};
void fields(Visitor& v, ElasticityConfig& c);

}  // namespace ds
