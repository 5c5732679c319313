// Methods of texts: those of Python's str.
#pragma once

#include <span>

#include "data/chat/run/context.h"

namespace ds::chat {

std::span<const Native> text_methods();

// str.format, whose arguments come as they are.
std::string brace_formatted(Context& context, const Value& format, const Arguments& arguments);

}  // namespace ds::chat
