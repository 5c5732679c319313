// Files of a tag, named in messages.
#pragma once

#include <span>
#include <string>

#include "checkpoint/format.h"

namespace ds {

// "the files of ranks 2, 5 to 7 of 8 (saved on node-2, node-3)"
std::string files_in_words(const Manifest& manifest, std::span<const int> ranks);

}  // namespace ds
