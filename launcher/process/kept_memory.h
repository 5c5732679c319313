// The memory in which the ranks of this host keep their state over the death of a process
// (checkpoint/hosts/checkpoint_memory.h). Whoever starts ranks makes it once, holds it over all
// epochs, and lets every rank inherit it: it has no name, so nothing of it is left behind however
// the holder ends. Refuses to know what lies in it; empty it takes no memory.
#pragma once

#include "core/files/file.h"

namespace ds {

// Throws IoError.
Fd make_kept_memory();

}  // namespace ds
