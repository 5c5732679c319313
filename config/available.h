// What this build of the engine does not have yet: enabling it is refused by name, never ignored.
// `run` and `check` ask; reading and explaining a configuration does not.
#pragma once

#include "config/config.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"

namespace ds {

// One error per missing feature that is asked for (config/effect.h), `sparse_attention: not
// available in this build` with what there is instead. What only we find wrong about it is then a
// note: there is one thing to mend.
void check_available(const Config& config, const Origins& origins, Problems& problems);

// What a training run needs and a DeepSpeed file alone does not say: model, data, length,
// optimizer.
void check_complete(const Config& config, Problems& problems);

// Both; throws Unsupported for features that are missing in this build, ConfigError for what is not
// given.
void require_runnable(const Config& config);

}  // namespace ds
