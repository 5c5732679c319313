// The elasticity section as the plain options of the elastic-batch rules (config/elastic_batch.h).
#pragma once

#include "config/elastic_batch.h"
#include "config/elasticity_config.h"

namespace ds {

ElasticOptions elastic_options(const ElasticityConfig& config);

}  // namespace ds
