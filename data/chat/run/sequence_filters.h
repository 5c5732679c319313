// Filters on lists, dicts and what else can be gone through.
#pragma once

#include <span>

#include "data/chat/run/context.h"

namespace ds::chat {

std::span<const Native> sequence_filters();

}  // namespace ds::chat
