// Keys that are given and valid but have no effect in this combination: notes, never errors.
#pragma once

#include "config/config.h"
#include "config/field_reader.h"
#include "config/problem.h"

namespace ds {

void note_inert_keys(const Config& config, const Origins& origins, Problems& problems);

}  // namespace ds
