#include "core/libraries/cublaslt.h"

#include "core/libraries/gpu_libraries.h"

namespace ds {

const CublasLt& cublaslt() {
  static const CublasLt table = [] {
    CublasLt out{Library(kind_of(GpuLibrary::kCublasLt))};
#define DS_FUNCTION(name) out.name = out.library.function<decltype(&::name)>(#name);
#include "core/libraries/cublaslt_functions.inl"
#undef DS_FUNCTION
    return out;
  }();
  return table;
}

}  // namespace ds
