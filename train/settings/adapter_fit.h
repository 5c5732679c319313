// Whether the low-rank adapters that a configuration asks for fit its model (pure): there are
// layers that they can be beside.
#pragma once

#include <string>
#include <vector>

#include "config/families/list.h"

namespace ds {

// Returns what there is to note: what of the section fits nothing. ConfigError, by the key, where
// no layer would have an adapter, and for modules and blocks that the model does not have;
// Unsupported for adapters of tables and heads.
std::vector<std::string> require_adapters(const ModelConfig& model);

// ConfigError where training drops of adapters' inputs, and cannot: adapters have magnitudes, or
// layers are shared among so many ranks.
void require_droppable(const ModelConfig& model, int64_t tensor_ranks);

// The paths of the modules that have an adapter, in order; of projections that a folder joins, that
// of the joined one.
std::vector<std::string> adapted_modules(const ModelConfig& model);
// As peft's target_modules: the last words of their paths where these say all and no others, else
// the paths.
std::vector<std::string> target_names(const ModelConfig& model);

}  // namespace ds
