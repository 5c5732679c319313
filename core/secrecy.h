// Keeps secrets of a running process where they belong: in its memory, while they are needed.
#pragma once

#include <string>
#include <string_view>

namespace ds {

// Overwrites the bytes, which a compiler may not leave out, and empties the string. Copies that
// others made are theirs to wipe.
void wipe(std::string& secret);

// From here on a crash of this process, or of one it starts, leaves no core file and feeds no core
// handler. Debuggers of the same user may still attach.
void forbid_core_dumps();

// From here on no process of the same user may read this one's memory, environment or open files,
// or attach to it; root still may. What the process starts is not hidden.
void hide_from_same_user();

}  // namespace ds
