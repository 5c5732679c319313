// Conversion of one document value to one field, with the coercions that DeepSpeed's configuration models
// perform: integral floats and digits in quotes for integers, 0/1 and yes/no words for booleans.
#pragma once

#include <string>

#include "config/fields.h"
#include "config/value.h"

namespace ds {

// Stores the value in the field. Returns "" or what is wrong with it ("got -1, expected an integer >= 0");
// the field is then unchanged. "auto" must have been handled before.
std::string store(const Value& value, const Field& field);

}  // namespace ds
