// Filters on texts and single values.
#pragma once

#include <span>

#include "data/chat/run/context.h"

namespace ds::chat {

std::span<const Native> text_filters();

}  // namespace ds::chat
