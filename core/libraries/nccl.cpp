#include "core/libraries/nccl.h"

#include "core/libraries/gpu_libraries.h"

namespace ds {

const Nccl& nccl() {
  static const Nccl table = [] {
    Nccl out{Library(kind_of(GpuLibrary::kNccl))};
#define DS_FUNCTION(result, name, parameters) \
  out.name = out.library.function<decltype(out.name)>(#name);
#include "core/libraries/nccl_functions.inl"
#undef DS_FUNCTION
    return out;
  }();
  return table;
}

}  // namespace ds
