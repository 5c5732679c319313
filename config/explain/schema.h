// The JSON Schema (draft 2020-12) of train.json, for editors and other tools. Generated from
// fields(), so it knows exactly the keys that the reader knows. It describes plain JSON; the
// reader's coercions (digits in quotes, Hjson) are not part of it.
#pragma once

#include "config/reader/value.h"

namespace ds {

Value json_schema();

}  // namespace ds
