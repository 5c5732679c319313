// What this build of the engine does not have yet: enabling it is refused by name, never ignored.
// `run` and `check` ask; reading and explaining a configuration does not.
#pragma once

#include "config/config.h"
#include "config/field_reader.h"
#include "config/load.h"
#include "config/reader/problem.h"

namespace ds {

// One error per missing feature that is asked for (config/effect.h), `sparse_attention: not
// available in this build` with what there is instead. What only we find wrong about it is then a
// note: there is one thing to mend.
void check_available(const Config& config, const Origins& origins, Problems& problems);

// One problem for each thing that a training run needs and that is not given: model, data, length,
// optimizer, batch size. What is given and was refused is not asked for again.
void check_complete(ReadConfig& read, Severity severity = Severity::kError);

// A configuration that names a model, data or a length is meant to be trained as it stands; one
// without is a DeepSpeed file alone.
bool describes_run(const ReadConfig& read);

// Both; throws Unsupported for features that are missing in this build, ConfigError for what is not
// given.
void require_runnable(const Config& config);

}  // namespace ds
