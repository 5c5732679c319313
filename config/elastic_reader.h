// Reads an elasticity section that did not come through train.json: the text that a resource
// scheduler leaves in DEEPSPEED_ELASTICITY_CONFIG. Follows the section's own rules (which keys are
// required, which have defaults); unknown keys are the scheduler's business and pass.
#pragma once

#include <rapidjson/document.h>

#include "config/elastic_batch.h"

namespace ds {

// True when the section says so.
bool elasticity_enabled(const rapidjson::Value& section);

// An enabled section must hold max_train_batch_size and micro_batch_sizes; a disabled one has
// defaults for both. Throws ElasticError(kConfig).
ElasticOptions read_elastic_options(const rapidjson::Value& section);

}  // namespace ds
