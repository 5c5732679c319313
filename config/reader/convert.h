// Conversion of one document value to one field and back, with the coercions that DeepSpeed's
// configuration models perform: integral floats and digits in quotes for integers, 0/1 and yes/no
// words for booleans.
#pragma once

#include <optional>
#include <string>

#include "config/reader/fields.h"
#include "config/reader/value.h"

namespace ds {

enum class Stored { kDone, kOutOfRange, kWrongKind };

// Stores the value in the field, also when it is out of range; a value of the wrong kind leaves the
// field as it is. "auto" must have been handled before.
Stored store(const Value& value, const Field& field);

// The present value of the field, null when it has none.
Value field_value(const Field& field);

// Whether an explicit null is a value of the field.
bool takes_null(const Field& field);

// What a boolean field would take the value for; nothing when it would refuse it.
std::optional<bool> boolean_of(const Value& value);

// "got -1, expected integer >= 0".
std::string refusal(const Value& value, const Field& field);

}  // namespace ds
