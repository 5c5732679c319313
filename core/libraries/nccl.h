// The table of NCCL's functions, filled by ds::nccl() of core/libraries/gpu_libraries.h. Each
// member has the name of the function that it points to, and its type in our words (nccl_abi.h).
#pragma once

#include "core/libraries/library.h"
#include "core/libraries/nccl_abi.h"

namespace ds {

struct Nccl {
  Library library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a member is declared
#define DS_FUNCTION(result, name, parameters) result(*name) parameters = nullptr;
#include "core/libraries/nccl_functions.inl"
#undef DS_FUNCTION
};

}  // namespace ds
