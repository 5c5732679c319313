#include "core/libraries/cublaslt.h"

#include "core/libraries/gpu_libraries.h"

namespace ds {

const CublasLt& cublaslt() {
  static const CublasLt table = cublaslt_of(Library(kind_of(GpuLibrary::kCublasLt)));
  return table;
}

}  // namespace ds
