// The table of NCCL's functions, filled by ds::nccl() of core/libraries/gpu_libraries.h.
// Each member has the name and the type of the function that it points to.
#pragma once

#include <nccl.h>

#include "core/libraries/library.h"

namespace ds {

struct Nccl {
  Library library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define DS_FUNCTION(name) decltype(&::name) name = nullptr;
#include "core/libraries/nccl_functions.inl"
#undef DS_FUNCTION
};

}  // namespace ds
