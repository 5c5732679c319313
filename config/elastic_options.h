// The elasticity section as the plain options of the elastic-batch rules (config/elastic_batch.h).
#pragma once

#include "config/elastic_batch.h"
#include "config/sections/elasticity.h"

namespace ds {

ElasticOptions elastic_options(const ElasticityConfig& config);

// The batch triangle of a configuration for a data-parallel size, by the elastic rules where they
// are switched on. Throws ConfigError, ElasticError.
struct Config;
BatchSizes batch_sizes(const Config& config, int64_t data_parallel_size);

}  // namespace ds
