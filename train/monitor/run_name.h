// The name by which a service knows a run, kept in a file of the run directory: a run that goes on,
// in whatever process, is the same one there.
#pragma once

#include <string>

namespace ds {

enum class RunNaming { kNew, kKept };  // kKept: the one that is there, if there is one

// `length` characters of 0-9 and a-z; the random ones are written to `file`.
std::string run_name(const std::string& file, int length, RunNaming naming);

}  // namespace ds
