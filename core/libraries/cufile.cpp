#include "core/libraries/cufile.h"

#include "core/libraries/gpu_libraries.h"

namespace ds {

const Cufile& cufile() {
  static const Cufile table = [] {
    Cufile out{Library(kind_of(GpuLibrary::kCufile))};
#define DS_FUNCTION(name) out.name = out.library.function<decltype(&::name)>(#name);
#include "core/libraries/cufile_functions.inl"
#undef DS_FUNCTION
    return out;
  }();
  return table;
}

}  // namespace ds
