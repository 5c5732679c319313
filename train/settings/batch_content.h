// What samples hold beside tokens and targets, by a configuration (pure).
#pragma once

#include "config/config.h"
#include "model/pass/batch.h"

namespace ds {

BatchContent batch_content(const Config& config, const ModelConfig& model);

}  // namespace ds
