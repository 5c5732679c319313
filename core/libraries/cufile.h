// The table of cuFile's functions, filled by ds::cufile() of core/libraries/gpu_libraries.h.
// Each member has the name and the type of the function that it points to.
#pragma once

#include "core/libraries/cufile_abi.h"
#include "core/libraries/library.h"

namespace ds {

struct Cufile {
  Library library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define DS_FUNCTION(name) decltype(&::name) name = nullptr;
#include "core/libraries/cufile_functions.inl"
#undef DS_FUNCTION
};

}  // namespace ds
