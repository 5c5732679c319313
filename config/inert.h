// Keys that are given but have no effect in this combination: notes, never errors.
#pragma once

#include "config/config.h"
#include "config/field_reader.h"
#include "config/reader/problem.h"

namespace ds {

void note_inert_keys(const Config& config, const Origins& origins, Problems& problems);

// What is wrong in sections that are switched off, and not for DeepSpeed, becomes notes.
void soften_what_is_off(const Config& config, Problems& problems);

}  // namespace ds
