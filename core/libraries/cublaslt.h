// The table of cuBLASLt's functions, filled by ds::cublaslt() of core/libraries/gpu_libraries.h.
// Each member has the name and the type of the function that it points to.
#pragma once

#include <cublasLt.h>

#include <utility>

#include "core/libraries/library.h"

namespace ds {

struct CublasLt {
  Library library;
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name is declared
#define DS_FUNCTION(name) decltype(&::name) name = nullptr;
#include "core/libraries/cublaslt_functions.inl"
#undef DS_FUNCTION
};

// Unsupported where the library lacks one of them.
inline CublasLt cublaslt_of(Library library) {
  CublasLt table{std::move(library)};
#define DS_FUNCTION(name) table.name = table.library.function<decltype(&::name)>(#name);
#include "core/libraries/cublaslt_functions.inl"
#undef DS_FUNCTION
  return table;
}

}  // namespace ds
