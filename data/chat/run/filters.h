// The filters that stand behind |, by name.
#pragma once

#include <span>

#include "data/chat/run/context.h"

namespace ds::chat {

const Native* find_filter(std::string_view name);  // null: there is none

}  // namespace ds::chat
