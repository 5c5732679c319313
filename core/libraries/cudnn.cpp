#include "core/libraries/cudnn.h"

#include "core/libraries/gpu_libraries.h"

namespace ds {

const Cudnn& cudnn() {
  static const Cudnn table = [] {
    Cudnn out{Library(kind_of(GpuLibrary::kCudnn))};
#define DS_FUNCTION(name) out.name = out.library.function<decltype(&::name)>(#name);
#include "core/libraries/cudnn_functions.inl"
#undef DS_FUNCTION
    return out;
  }();
  return table;
}

}  // namespace ds
