// The functions that templates find without being given any.
#pragma once

#include "data/chat/run/context.h"

namespace ds::chat {

const Native* find_function(std::string_view name);  // null: there is none

}  // namespace ds::chat
