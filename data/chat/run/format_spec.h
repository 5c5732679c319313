// Python's format specifications, which stand behind a colon: "{:>8.2f}".
#pragma once

#include "data/chat/run/context.h"

namespace ds::chat {

// What format(value, specification) makes in Python. Fault for a specification that the value's
// type does not have.
std::string formatted(Context& context, const Value& value, std::string_view specification);

}  // namespace ds::chat
