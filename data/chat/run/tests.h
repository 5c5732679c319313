// The tests that stand behind `is`, by name.
#pragma once

#include "data/chat/run/context.h"

namespace ds::chat {

const Native* find_test(std::string_view name);  // null: there is none

}  // namespace ds::chat
