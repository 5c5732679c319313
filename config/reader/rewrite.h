// Old spellings that are not a simple second name: each is rewritten to what it stands for before
// the typed structs are read, with a note. Both spellings at once is an error.
#pragma once

#include "config/reader/problem.h"
#include "config/reader/value.h"

namespace ds {

void rewrite_old_spellings(Value& document, Problems& problems);

}  // namespace ds
