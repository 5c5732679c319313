// Reads the source of a template into a tree. What Jinja has and templates of chats do not use is
// refused by name, with its line.
#pragma once

#include <memory>
#include <string_view>

#include "data/chat/syntax/tree.h"
#include "data/chat/syntax/vocabulary.h"

namespace ds::chat {

std::unique_ptr<Tree> parse_template(std::string_view source, const Vocabulary& vocabulary);

}  // namespace ds::chat
