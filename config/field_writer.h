// The configuration structs as a document: every field with its present value, in the order of
// fields().
#pragma once

#include "config/config.h"
#include "config/reader/value.h"

namespace ds {

// Reading the result gives an equal Config but for secrets, which have no value there. Fields that
// have no value are written as null (or left out where their Spec says so), fields of other
// conditions (another optimizer type) are left out.
Value write_fields(Config config);

// What the configuration comes to: without parameters of features that are off and without absent
// sections.
Value write_effective_fields(Config config);

}  // namespace ds
