// Methods of values, by name.
#pragma once

#include "data/chat/run/context.h"

namespace ds::chat {

// The method that values of this kind have; null: none.
const Native* find_method(Kind kind, std::string_view name);

}  // namespace ds::chat
