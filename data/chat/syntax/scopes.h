// Which names a scope sets before it reads them. Jinja decides that when it compiles: such a name
// hides variables from outside from the scope's beginning, also in loops and macros within that
// run before it is set.
#pragma once

#include "data/chat/syntax/tree.h"

namespace ds::chat {

void find_hidden_names(Tree& tree);  // fills Tree::hidden and Node::hidden

}  // namespace ds::chat
