// The table of NVML's functions: what GPUs the driver has, and how they are. The driver brings the
// library, so it needs no CUDA in the build. Each member has the name and the type of the function
// that it points to; null where an old driver has none.
#pragma once

#include "core/libraries/library.h"
#include "core/libraries/nvml_abi.h"

namespace ds {

struct Nvml {
  Library library;
// NOLINTBEGIN(bugprone-macro-parentheses): names are declared
#define DS_FUNCTION(name) decltype(&::name) name = nullptr;
#define DS_OPTIONAL(name) decltype(&::name) name = nullptr;
#include "core/libraries/nvml_functions.inl"
#undef DS_FUNCTION
#undef DS_OPTIONAL
  // NOLINTEND(bugprone-macro-parentheses)
};

inline constexpr const char* kNvmlFile = "libnvidia-ml.so.1";

// Unsupported where the library or a function that every driver has is missing. Nothing is started.
Nvml open_nvml(const std::string& file = kNvmlFile);

}  // namespace ds
