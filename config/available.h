// What this build of the engine does not have yet: enabling it is refused by name, never ignored.
// `run` and `check` ask; reading and explaining a configuration does not.
#pragma once

#include <string>
#include <vector>

#include "config/config.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"

namespace ds {

// One error per enabled feature, `sparse_attention: not available in this build` with what there is
// instead. What only we find wrong in its section is then a note: there is one thing to mend.
void check_available(const Config& config, const Origins& origins, Problems& problems);

// The keys of train.json behind which such a feature is, sorted. Some are refused for some of their
// values only.
std::vector<std::string> keys_with_missing_features();

// What a training run needs and a DeepSpeed file alone does not say: model, data, length,
// optimizer.
void check_complete(const Config& config, Problems& problems);

// Both; throws Unsupported for features that are missing in this build, ConfigError for what is not
// given.
void require_runnable(const Config& config);

}  // namespace ds
