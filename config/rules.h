// Rules that join several keys (config-notes sections 4 to 8): what contradicts, what needs what, and which
// keys that were given have no effect in this combination. Pure.
#pragma once

#include "config/config.h"
#include "config/field_reader.h"
#include "config/problem.h"

namespace ds {

// Errors of combination, each at the position of the key that is easiest to change.
void check_rules(const Config& config, const Origins& origins, Problems& problems);

// Notes for keys that are given and valid but inert here ("has no effect in stage 3").
void note_inert_keys(const Config& config, const Origins& origins, Problems& problems);

}  // namespace ds
