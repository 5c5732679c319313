#include "config/elastic_options.h"

namespace ds {

ElasticOptions elastic_options(const ElasticityConfig& config) {
  ElasticOptions options;
  options.max_train_batch_size = config.max_train_batch_size;
  options.micro_batch_sizes = config.micro_batch_sizes;
  options.min_gpus = config.min_gpus;
  options.max_gpus = config.max_gpus;
  options.num_gpus_per_node = config.num_gpus_per_node;
  options.model_parallel_size = config.model_parallel_size;
  options.min_time = static_cast<double>(config.min_time);
  options.version = config.version;
  options.prefer_larger_batch = config.prefer_large_batch;
  options.ignore_non_elastic_batch_info = config.ignore_non_elastic_batch_info;
  return options;
}

}  // namespace ds
